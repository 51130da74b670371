"""The zoo: models that others wrote, each trained a little with and without the debugger.

`python -m tests.zoo torchvision` and `python -m tests.zoo transformers` run all of them and print a table.
"""
