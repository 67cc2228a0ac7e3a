"""What a broker stores, acknowledges and redelivers as one: an entry, by its ledger's id and its own."""

EntryKey = tuple[int, int]

LAST_ID = 2**63 - 1


def is_real(entry: EntryKey) -> bool:
    """Tell whether there can be such an entry: ids travel as 64 bits, and those below 0 stand for none."""
    ledger_id, entry_id = entry
    return 0 <= ledger_id <= LAST_ID and 0 <= entry_id <= LAST_ID
