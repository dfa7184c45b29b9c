"""Command lines, in this process."""

import sys

from prudent import api
from prudent.cli.main import main


def prudent_command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["prudent", *map(str, words)])
    main()


def would_train(monkeypatch, *words):
    """What a command line hands to `prudent.api.train`: an algorithm, and keywords."""
    found = []
    monkeypatch.setattr(api, "train", lambda *names, **values: found.append((*names, values)))
    prudent_command(monkeypatch, *words)
    return found[0]
