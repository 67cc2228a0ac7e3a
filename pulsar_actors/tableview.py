"""Table views: the module `pulsar.tableview` of the official package."""

from pulsar_actors.client.table_view import TableView

__all__ = ["TableView"]
