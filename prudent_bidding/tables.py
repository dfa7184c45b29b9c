"""Tables, a figure and a page of a semi-batch run, from its results files only."""

import base64
import csv
import html
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from prudent.files import write_atomically
from prudent.report.tables import markdown
from prudent_bidding.forms import FORMS, FormName
from prudent_bidding.plan import INCUMBENT, Plan, calibration_file, results_file
from prudent_bidding.records import read_json
from prudent_bidding.schema import DAYS
from prudent_bidding.world import preset as world_preset

TITLES = {
    "wcsac": "WCSAC", "cvpo": "CVPO", "cup": "CUP", "sac-pid": "SAC-PIDLag", "cal": "CAL",
    "sac-lag": "SAC-Lag", "ucb": "UCB-k", INCUMBENT: "incumbent",
}  # fmt: skip
CONSTANT, BEST_CONSTANT = "constant:", "best constant (hindsight)"
Rows = list[list[str]]  # the first has the headings


class Line(NamedTuple):
    """One policy in one week."""

    week: int
    name: str
    kind: str  # algorithm, incumbent or reference
    metrics: Mapping[str, Any]
    results: Mapping[str, Any]  # of the week
    training: Mapping[str, Any] = {}
    calibration: Mapping[str, Any] = {}

    @property
    def is_constant(self) -> bool:
        return self.name.startswith(CONSTANT)

    def value(self, metric: str) -> float:
        """NaN where it was not measured."""
        found = self.metrics.get(metric)
        return math.nan if found is None else float(found["value"])


def title(name: str) -> str:
    return TITLES.get(name, name)


def constant(name: str) -> float:
    return float(name.removeprefix(CONSTANT))


def read_lines(folder: Path, plan: Plan) -> list[Line]:
    """All finished weeks, week by week."""
    lines = []
    for week in range(plan.weeks + 1):
        path = results_file(folder, week)
        if not path.exists():
            break
        results = read_json(path)
        for name, found in results["arms"].items():
            kind = INCUMBENT if name == INCUMBENT else "algorithm"
            training = results.get("training", {}).get(name, {})
            measured = calibration_file(folder, name, week)
            calibration = read_json(measured) if measured.exists() else {}
            lines.append(Line(week, name, kind, found, results, training, calibration))
        references = dict(results.get("references", {}))
        best = best_constant(references, plan.form)
        if best is not None:
            references[f"{BEST_CONSTANT}: {constant(best):g}"] = references[best]
        lines += [
            Line(week, name, "reference", found, results) for name, found in references.items()
        ]
    return lines


def best_constant(references: Mapping[str, Mapping[str, Any]], form: FormName) -> str | None:
    """The one that pays most within the constraint that learners have; else the safest."""

    def number(name: str, metric: str) -> float:
        return float(references[name][metric]["value"])

    # Results of older versions have the deficit only.
    constants = [n for n in references if n.startswith(CONSTANT) and form in references[n]]
    within = [name for name in constants if number(name, form) <= FORMS[form].bound]
    if within:
        return max(within, key=lambda name: number(name, "pay_per_day"))
    return min(constants, key=lambda name: number(name, form), default=None)


def platform_days(plan: Plan) -> int:
    return world_preset(plan.preset).advertisers * DAYS


def caption(plan: Plan) -> str:
    return (
        f"Simulated: world `{plan.preset}` ({plan.world_sha256[:8]}), world seed "
        f"{plan.world_seed}, learner seed {plan.seed}, {plan.updates} updates of "
        f"{plan.batch_size} rows a week, history {plan.history}, constraint {plan.form}. Not "
        "comparable in units to the paper's table. Pay is per week and as if a policy had all "
        "advertisers on all days. Intervals: 95 %, advertisers drawn anew."
    )


def paper_table(lines: Sequence[Line], plan: Plan) -> Rows:
    """Week rows, algorithm columns: Pay in thousands / violations in %. Pay is less the least in
    the table, as in the paper: only differences mean anything.
    """
    own = [line for line in lines if line.kind == "algorithm" and line.week > 0]
    if not own:
        return []
    thousands = platform_days(plan) / 1000
    pay = {(line.week, line.name): thousands * line.value("pay_per_day") for line in own}
    least = min(pay.values())

    def cell(line: Line) -> str:
        return (
            f"{pay[line.week, line.name] - least:.2f} / {number(100 * line.value('vio_week'), 2)}"
        )

    weeks = sorted({line.week for line in own})
    rows = [[str(week), *(cell(line) for line in own if line.week == week)] for week in weeks]
    return [["week", *map(title, plan.algorithms)], *rows]


def number(found: Any, digits: int = 3) -> str:
    return "-" if found is None or math.isnan(found) else f"{float(found):.{digits}f}"


Cell = Callable[[Line], str]


def metric(name: str, scale: float = 100.0, digits: int = 1) -> Cell:
    """The value with its interval; a dash where there is none."""

    def shown(line: Line) -> str:
        text = number(scale * line.value(name), digits)
        if text != "-" and line.metrics[name]["interval"]:
            low, high = (number(scale * bound, digits) for bound in line.metrics[name]["interval"])
            text += f" [{low}, {high}]"
        return text

    return shown


def columns(plan: Plan) -> dict[str, Cell]:
    def of_world(name: str) -> Cell:
        """Of the simulation that all arms had in common."""

        def shown(line: Line) -> str:
            shared = line.kind != "reference" and "rows" in line.results
            return number(line.results.get(name) if shared else None, 0)

        return shown

    def critic(name: str) -> Cell:
        return lambda line: number(line.calibration.get(name))

    return {
        "week": lambda line: str(line.week),
        "policy": lambda line: title(line.name),
        "kind": lambda line: line.kind,
        "pay (k)": metric("pay_per_day", platform_days(plan) / 1000),
        "pay against incumbent (%)": metric("pay_change"),
        "vio_week (%)": metric("vio_week"),
        "vio_day (%)": metric("vio_day"),
        "vio_exp (%)": metric("vio_exp"),
        "vio_week 5 % (%)": metric("vio_week_5%"),
        "vio_week 10 % (%)": metric("vio_week_10%"),
        "depth (%)": metric("depth", digits=2),
        "ROI / target": metric("roi_ratio", 1.0, 3),
        "budget used (%)": metric("utilisation"),
        "exhausted (%)": metric("exhausted"),
        "win rate (%)": metric("win_rate"),
        "mean k": metric("mean_k", 1.0, 3),
        "multiplier": lambda line: number(line.training.get("training", {}).get("multiplier")),
        "critic: conservative": critic("conservative"),
        "critic: realised": critic("realised"),
        "critic spread": critic("spread"),
        "train (s)": lambda line: number(line.training.get("train_seconds"), 0),
        "simulate (s)": of_world("simulation_seconds"),
        "rows": of_world("rows"),
    }


def full_table(lines: Sequence[Line], plan: Plan) -> Rows:
    shown = columns(plan)
    return [[*shown], *([cell(line) for cell in shown.values()] for line in lines)]


def frontier(lines: Sequence[Line], plan: Plan) -> bytes:
    """Pay against violations, a point per week: Pay alone is had by bidding more."""
    figure = Figure(figsize=(8.0, 5.5), layout="constrained")
    axes = figure.add_subplot()
    draw_frontier(axes, [line for line in lines if line.week > 0], plan)
    axes.set_title(f"Simulated: {plan.preset}, world seed {plan.world_seed}; numbers are weeks")
    axes.legend(fontsize=7)
    return figure_bytes(figure)


def figure_bytes(figure: Figure) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120, metadata={"Software": None})
    return content.getvalue()


def draw_frontier(axes: Any, lines: Sequence[Line], plan: Plan) -> None:
    """A line of the last week's constants, and one over the weeks of every other policy."""
    thousands = platform_days(plan) / 1000

    def draw(points: Sequence[Line], style: str, **look: Any) -> None:
        known = [line for line in points if not math.isnan(line.value("vio_week"))]
        at = [
            (100.0 * line.value("vio_week"), thousands * line.value("pay_per_day"))
            for line in known
        ]
        axes.plot([x for x, _ in at], [y for _, y in at], style, linewidth=1.0, **look)
        for line, place in zip(known, at, strict=True):
            text = f"{constant(line.name):g}" if line.is_constant else str(line.week)
            axes.annotate(text, place, fontsize=7, xytext=(3, 3), textcoords="offset points")

    drawn = [line for line in lines if not line.name.startswith(BEST_CONSTANT)]
    last = max((line.week for line in drawn), default=0)
    constants = [line for line in drawn if line.is_constant and line.week == last]
    if constants:
        constants.sort(key=lambda line: constant(line.name))
        draw(constants, "--", color="0.6", label=f"constant k, week {last}")
    names = dict.fromkeys(line.name for line in drawn if not line.is_constant)
    for index, name in enumerate(names):
        own = [line for line in drawn if line.name == name]
        marker = "o" if own[0].kind == "algorithm" else "s"
        colour = f"C{index}" if index < 10 else "black"  # matplotlib has ten
        draw(own, ":", color=colour, marker=marker, label=title(name))
    axes.set_xlabel("advertisers below their target ROI, % (Vio_week)")
    axes.set_ylabel("pay per week, thousands")


def as_markdown(rows: Rows) -> str:
    return markdown(rows[0], rows[1:]) if rows else ""


def as_csv(rows: Rows) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def as_html(rows: Rows) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    if not rows:
        return "<p>No week is finished yet.</p>"
    body = "".join(row(cells, "td") for cells in rows[1:])
    head = row(rows[0], "th")
    return f"<div class=wide><table><thead>{head}</thead><tbody>{body}</tbody></table></div>"


STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;font-size:.8rem}td,th{border:1px solid #bbb;padding:.2rem "
    ".5rem;text-align:right;white-space:nowrap}.wide{overflow-x:auto}img{max-width:100%}"
)


def page(plan: Plan, paper: Rows, full: Rows, picture: bytes) -> str:
    image = base64.b64encode(picture).decode()
    heading = f"Semi-batch bidding, simulated: {plan.preset}"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(heading)}</title>"
        f"<style>{STYLE}</style><h1>{html.escape(heading)}</h1><p>{html.escape(caption(plan))}</p>"
        "<h2>Pay in thousands, less the least / violations in %</h2>"
        f"{as_html(paper)}<h2>Pay against violations</h2>"
        f'<img alt="Pay against violations" src="data:image/png;base64,{image}">'
        f"<h2>Everything</h2>{as_html(full)}</html>\n"
    )


def write_report(folder: Path, plan: Plan) -> None:
    """Tables, figure and page of the weeks that are finished."""
    lines = read_lines(folder, plan)
    paper, full, picture = paper_table(lines, plan), full_table(lines, plan), frontier(lines, plan)
    text = (
        f"# Semi-batch bidding, simulated\n\n{caption(plan)}\n\nPay in thousands, less the least "
        f"in the table / violations in %:\n\n{as_markdown(paper)}\n\n{as_markdown(full)}\n"
    )
    written = {
        "table-paper.csv": as_csv(paper).encode(),
        "table-full.csv": as_csv(full).encode(),
        "frontier.png": picture,
        "tables.md": text.encode(),
        "index.html": page(plan, paper, full, picture).encode(),
    }
    for name, content in written.items():
        write_atomically(folder / name, content)


def report(folder: Path) -> Path:
    """Make the tables and the page of a run's folder anew; returns the page."""
    plan = Plan.read(folder)
    if not results_file(folder, 1).exists():
        raise ValueError(f"{folder}: no deployment of this bidding run is finished yet")
    write_report(folder, plan)
    return folder / "index.html"
