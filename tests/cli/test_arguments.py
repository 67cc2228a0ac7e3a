"""Arguments that several commands have, where they do not fit: the usage, the name of the option, and the status 2."""

import pytest

from pulsar_actors.__main__ import main

COMMANDS = [["produce", "t", "-m", "a"], ["consume", "t"], ["topics", "list"]]
METHODS = "takes one of token, tls, basic, oauth2token, athenz, or the Java class of one"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--timeout", "0"], "argument --timeout: takes seconds, from 0.001 to 1,000,000,000, got '0'"),
        (["--timeout", "nan"], "argument --timeout: takes seconds, from 0.001 to 1,000,000,000, got 'nan'"),
        (["--timeout", "soon"], "argument --timeout: takes seconds, from 0.001 to 1,000,000,000, got 'soon'"),
        (["--auth-plugin", "foo"], f"argument --auth-plugin: {METHODS}"),
        (["--trust-cert-file", "/no/such"], "argument --trust-cert-file: there is no file '/no/such'"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_an_argument_that_does_not_fit_is_refused_by_the_name_of_its_option(
    command: list[str], words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, *words])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f": error: {says}")
