"""Command lines, in this process."""

import sys

from prudent.agent import Agent
from prudent.cli.main import main


def prudent_command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["prudent", *map(str, words)])
    main()


def would_train(monkeypatch, *words):
    """What a command line hands to an agent: an algorithm, and keywords; `out` is its folder."""
    found, make = [], Agent.__init__

    def note(agent, *names, **values):
        make(agent, *names, **values)
        found.append((*names, {**values, "out": agent.folder}))

    monkeypatch.setattr(Agent, "__init__", note)
    monkeypatch.setattr(Agent, "_begin", lambda *_: None)
    monkeypatch.setattr(Agent, "learn", lambda agent: {})
    prudent_command(monkeypatch, *words)
    return found[0]
