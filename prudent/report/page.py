"""One HTML page of a report that needs nothing else: no server, no network.

Tables, warnings and differences of settings are HTML that is made here and can be read without
scripts; `assets/page.js` draws the plots. Whatever a run's folder says is escaped: between tags by
`escape`, and in what scripts read by base64.
"""

import base64
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

from prudent import __version__
from prudent.report.cautions import Caution
from prudent.report.contents import Json, contents
from prudent.report.figures import MANY, Groups
from prudent.report.groups import differing, settings_of, shown
from prudent.report.looks import algorithm_colours
from prudent.report.records import GREEDY, Record, kinds, steps_done, steps_planned
from prudent.report.tables import FINAL_COSTS, LAST, Row, detailed_rows

READING = f"""
<h3>Curves</h3><p>Thick: the mean over seeds, on the steps that all of them have reached. Of fewer
than five seeds each one is drawn thin: a band over so few would mean nothing. From five on a shade
shows one standard deviation over seeds.</p>
<h3>Boxes</h3><p>All training episodes of a run in time order, cut into four; seeds pooled, warm-up
left out. Box: quartiles and median. Whiskers: the last episodes within 1.5 box lengths. Dots: some
of the episodes beyond, the outermost always.</p>
<h3>Table</h3><p>"Final" is a seed's mean over its last {LAST} evaluations. [a, b] is a 95 %
interval: Student's of the mean over seeds; of the interquartile mean (IQM) a stratified bootstrap,
which fewer than five seeds do not allow: (a to b) is then the range of the seeds. "Mean return of
all training" is the area under the curve, divided by its steps. Oscillation: standard deviation
within ten evaluations, averaged. Excess: cost beyond the budget, summed over training episodes.</p>
<h3>Estimate minus oracle</h3><p>Of the conservative cost estimate at the starts of episodes,
against what 100 episodes of the policy really cost, as <code>prudent diagnose</code> measured it:
above 0 is overestimation. "Dual" takes the estimate that drives the multiplier instead. Spread:
standard deviation of the critics' estimates, mean over training's batches.</p>
"""


class Making(NamedTuple):
    """How a page is made."""

    title: str
    made: str  # when
    figures: Mapping[str, Sequence[str]] = {}  # by task, addresses relative to the page
    reload: float | None = None  # seconds, while it is followed
    log_steps: bool = False


def page(tasks: Mapping[str, Groups], warnings: Sequence[Caution], making: Making) -> str:
    shown_tasks = contents(tasks)
    cards = [
        task_card(index, task, each, making)
        for index, (task, each) in enumerate(zip(tasks.items(), shown_tasks, strict=True))
    ]
    runs = [record for groups in tasks.values() for group in groups.values() for record in group]
    reload = f' data-reload="{making.reload:g}"' if making.reload else ""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(making.title)}</title>",
            f"<style>{asset('page.css')}</style>\n</head>\n<body{reload}>",
            head(making, len(runs), len(tasks)),
            "<main>",
            following(making.reload),
            caution_card(warnings),
            filters(shown_tasks, tasks, making.log_steps),
            *cards,
            '<p id="nothing" class="empty" hidden>Nothing is chosen.</p>',
            f'<section class="card">{folded(f"All runs ({len(runs)})", run_table(tasks))}',
            folded("How to read this page", READING),
            "</section>\n</main>",
            "<!-- plotly.js: MIT licence, (c) Plotly, Inc.; compressed, its notice inside -->",
            packed("plotly", plotly_script()),
            packed("contents", json.dumps(shown_tasks, separators=(",", ":"))),
            f"<script>{asset('page.js')}</script>\n</body>\n</html>\n",
        ]
    )


def asset(name: str) -> str:
    return (files("prudent.report") / "assets" / name).read_text()


def plotly_script() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def packed(name: str, text: str) -> str:
    """Text for scripts, in letters that can end no tag."""
    content = base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
    return f'<script type="text/plain" id="{name}">{content}</script>'


def head(making: Making, runs: int, tasks: int) -> str:
    counted = f"{count(runs, 'run')} on {count(tasks, 'task')}"
    return (
        f"<header><h1>{escape(making.title)}</h1>"
        f'<p class="soft">{counted} · made {escape(making.made)} by prudent {__version__}</p>'
        '<p id="failed" class="card cautions" hidden>The plots cannot be drawn in this browser; '
        "the tables below are complete, and the figures lie beside this page.</p>"
        '<noscript><p class="card cautions">Plots need JavaScript; the tables below do not, and '
        "the figures lie beside this page.</p></noscript></header>"
    )


def count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def following(reload: float | None) -> str:
    if not reload:
        return ""
    return (
        '<p class="card notice">Runs are being followed: this page loads itself anew every '
        f'{reload:g} seconds. <label class="chip"><input type="checkbox" id="pause"> stay as it is'
        "</label></p>"
    )


def caution_card(warnings: Sequence[Caution]) -> str:
    if not warnings:
        return ""
    kinds = dict.fromkeys(caution.kind for caution in warnings)
    parts = []
    for kind in kinds:
        of_kind = [caution for caution in warnings if caution.kind == kind]
        items = "".join(
            f"<li>{f'<b>{escape(each.task)}</b>: ' if each.task else ''}{escape(each.text)}</li>"
            for each in of_kind
        )
        parts.append(f"<h3>{escape(kind.capitalize())}</h3><ul>{items}</ul>")
    summary = f"{count(len(warnings), 'warning')}: {', '.join(kinds)}"
    return (
        f'<section class="card cautions" id="cautions"><details open><summary>{escape(summary)}'
        f"</summary>{''.join(parts)}</details></section>"
    )


def filters(shown_tasks: Sequence[Json], tasks: Mapping[str, Groups], log_steps: bool) -> str:
    algorithms = list(dict.fromkeys(g["algorithm"] for t in shown_tasks for g in t["groups"]))
    colours = algorithm_colours(algorithms)
    task_chips = [chip("task", str(i), task) for i, task in enumerate(tasks)]
    algorithm_chips = [
        chip("algorithm", name, name, colours[name])
        for name in sorted(algorithms, key=list(colours).index)
    ]
    sampled = any(
        len(kinds(records)) > 1 for groups in tasks.values() for records in groups.values()
    )
    options = [
        '<label class="soft">seeds <select id="seeds"><option value="auto">where there is no band'
        '</option><option value="always">always</option><option value="never">never</option>'
        "</select></label>",
        toggle("logarithmic", "logarithmic steps", log_steps),
        *([toggle("sampled", "sampled evaluations", True)] if sampled else []),
    ]
    return (
        '<form class="card filters" onsubmit="return false">'
        f"{fieldset('Tasks', task_chips, 'task')}"
        f"{fieldset('Algorithms', algorithm_chips, 'algorithm')}"
        f"{fieldset('Curves', options)}</form>"
    )


def fieldset(legend: str, parts: Iterable[str], all_of: str = "") -> str:
    button = f'<button type="button" class="plain" data-all="{all_of}">all / none</button>'
    return (
        f"<fieldset><legend>{legend}</legend>{button if all_of else ''}{''.join(parts)}</fieldset>"
    )


def chip(name: str, value: str, words: str, colour: str = "") -> str:
    return (
        f'<label class="chip"><input type="checkbox" name="{name}" value="{escape(value)}" checked>'
        f"{swatch(colour)}{escape(words)}</label>"
    )


def toggle(name: str, words: str, checked: bool) -> str:
    state = " checked" if checked else ""
    return f'<label class="chip"><input type="checkbox" id="{name}"{state}>{words}</label>'


def swatch(colour: str) -> str:
    return f'<span class="swatch" style="--of:{colour}"></span>' if colour else ""


def task_card(index: int, task: tuple[str, Groups], data: Json, making: Making) -> str:
    name, groups = task
    colours = [group["colour"] for group in data["groups"]]
    buttons = "".join(
        f'<button type="button" class="group" aria-pressed="true" data-of="{index}" '
        f'data-group="{place}" data-key="{index}-{place}">{swatch(colours[place])}{escape(label)}'
        f"</button>"
        for place, label in enumerate(groups)
    )
    plots = "".join(
        f'<figure class="plot{" wide" if each["name"] == "boxes" and len(groups) > MANY else ""}" '
        f'data-task="{index}" data-panel="{place}" data-name="{each["name"]}">'
        f"<figcaption>{escape(each['title'])}{marked(each)}</figcaption>"
        f'<div class="canvas"></div></figure>'
        for place, each in enumerate(data["panels"])
    )
    links = " · ".join(
        f'<a href="{escape(address)}">{escape(address.rpartition(".")[2].upper())}</a>'
        for address in making.figures.get(name, ())
    )
    return (
        f'<section class="card task" data-task="{index}" id="task-{index}"><div class="task-head">'
        f'<h2>{escape(name)}</h2><p class="soft">{escape(task_summary(groups))}'
        f"{f' · figure: {links}' if links else ''}</p></div>"
        f'<div class="groups">{buttons}</div><div class="plots">{plots}</div>'
        f"{result_table(index, detailed_rows(groups), list(groups), colours)}"
        f"{folded('Settings that differ', difference_table(index, groups))}</section>"
    )


def marked(panel: Json) -> str:
    """What the dashed line is; where there are several, each is named in the plot."""
    if panel["name"] not in ("cost", "boxes"):
        return ""
    values = panel["marks"]
    words = f"budget {shown(values[0])}" if len(values) == 1 else "budgets"
    return f' <span class="budget">{words}</span>'


def task_summary(groups: Groups) -> str:
    runs = [records[0].run for records in groups.values()]
    budgets = " and ".join(shown(budget) for budget in sorted({run["budget"] for run in runs}))
    counting = {run["discounted"] for run in runs}
    unit = "" if len(counting) > 1 else " (discounted sum)" if True in counting else " (sum)"
    number = sum(map(len, groups.values()))
    return f"budget {budgets}{unit} per episode · {count(number, 'run')}"


def folded(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def table(caption: str, headings: Sequence[str], rows: Iterable[str]) -> str:
    """The rows are HTML already, the rest is text."""
    heads = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def result_table(
    task: int, rows: Sequence[Row], labels: Sequence[str], colours: Sequence[str]
) -> str:
    headings = list(dict.fromkeys(heading for row in rows for heading in row.cells))

    def line(row: Row) -> str:
        place, sampled = labels.index(row.label), row.kind != GREEDY
        cells = "".join(
            f"<td{over(row, heading)}>{escape(row.cells.get(heading, '-'))}</td>"
            for heading in headings
        )
        words = f"{row.label}, sampled" if sampled else row.label
        return (
            f'<tr data-of="{task}" data-group="{place}" data-sampled="{str(sampled).lower()}">'
            f'<th scope="row">{swatch(colours[place])}{escape(words)}</th>{cells}</tr>'
        )

    caption = f"Final numbers: each seed's last {LAST} evaluations. Red: over the budget."
    return table(caption, ["", *headings], map(line, rows))


def over(row: Row, heading: str) -> str:
    return ' class="over"' if row.over_budget and heading in FINAL_COSTS else ""


def difference_table(task: int, groups: Groups) -> str:
    """Settings that are not the same in all groups, one column each."""
    settings = [settings_of(records[0]) for records in groups.values()]
    names = differing(settings)
    if not names:
        return '<p class="empty">None: all runs have the same settings.</p>'
    heads = "".join(
        f'<th scope="col" data-of="{task}" data-group="{place}">{escape(label)}</th>'
        for place, label in enumerate(groups)
    )
    lines = []
    for name in names:
        cells = "".join(
            f'<td data-of="{task}" data-group="{place}">{escape(each.get(name, "-"))}</td>'
            for place, each in enumerate(settings)
        )
        lines.append(f'<tr><th scope="row"><code>{escape(name)}</code></th>{cells}</tr>')
    return (
        f'<div class="scroll"><table><thead><tr><th scope="col">setting</th>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def run_table(tasks: Mapping[str, Groups]) -> str:
    lines = [
        run_line(task, label, record)
        for task, groups in tasks.items()
        for label, records in groups.items()
        for record in records
    ]
    headings = ["task", "runs of", "seed", "steps", "evaluations", "diagnosed snapshots", "folder"]
    return table("", headings, lines)


def run_line(task: str, label: str, record: Record) -> str:
    planned = steps_planned(record)
    steps = f"{steps_done(record):,}" + (f" of {planned:,.0f}" if planned is not None else "")
    values: list[Any] = [task, label, record.run["seed"], steps]
    values += [len(record.progress), len(record.diagnostics)]
    cells = "".join(f"<td>{escape(str(value))}</td>" for value in values)
    return f'<tr>{cells}<td class="long"><code>{escape(str(record.folder))}</code></td></tr>'
