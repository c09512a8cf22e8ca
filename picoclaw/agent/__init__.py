"""The agent: `dispatcher.py` answers what comes in, `loop.py` asks the model and runs its calls.

`context.py` decides what a model is told and which tools it is offered, `conversation.py` what of the history fits.
"""
