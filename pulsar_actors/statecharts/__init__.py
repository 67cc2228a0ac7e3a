"""The pictures of the state charts: what is drawn of each chart, where it is placed, and the SVG document.

The layout is computed here, so no drawing tool has to be installed. `cli/statecharts` writes the pictures to files, and
`inspector` shows them with the present states lit.
"""
