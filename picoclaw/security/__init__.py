"""Who may have what done: `policy.py` has the rules, `guard.py` decides on a call, or has the owner asked, who may approve it.

`sandbox.py` runs commands, `untrusted.py` cleans and marks text from outside, `orders.py` says what of a call the owner
has ordered, `redaction.py` masks secrets, `audit.py` records.
"""
