"""Tables, a figure and a page of a semi-batch run, from its results files only."""

import base64
import csv
import html
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from prudent.files import write_atomically
from prudent.report.tables import markdown
from prudent_bidding.forms import FORMS, FormName
from prudent_bidding.plan import INCUMBENT, Plan, calibration_file, results_file
from prudent_bidding.schema import DAYS
from prudent_bidding.world import preset as world_preset

TITLES = {
    "wcsac": "WCSAC", "cvpo": "CVPO", "cup": "CUP", "sac-pid": "SAC-PIDLag", "cal": "CAL",
    "sac-lag": "SAC-Lag", "ucb": "UCB-k", INCUMBENT: "incumbent",
}  # fmt: skip
CONSTANT, BEST_CONSTANT = "constant:", "best constant (hindsight)"


class Line(NamedTuple):
    """One policy in one week."""

    week: int
    name: str
    kind: str  # algorithm, incumbent or reference
    metrics: Mapping[str, Any]
    training: Mapping[str, Any]
    calibration: Mapping[str, Any]
    results: Mapping[str, Any]  # of the week


def title(name: str) -> str:
    return TITLES.get(name, name)


def read_json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read ({error}); restore it or begin anew") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no JSON object; restore it or begin anew")
    return found


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
            lines.append(Line(week, name, kind, found, training, calibration, results))
        references = results.get("references", {})
        for name, found in references.items():
            lines.append(Line(week, name, "reference", found, {}, {}, results))
        best = best_constant(references, plan.form)
        if best is not None:
            name = f"{BEST_CONSTANT}: {constant(best):g}"
            lines.append(Line(week, name, "reference", references[best], {}, {}, results))
    return lines


def constant(name: str) -> float:
    return float(name.removeprefix(CONSTANT))


def best_constant(references: Mapping[str, Mapping[str, Any]], form: FormName) -> str | None:
    """The one that pays most within the constraint that learners have; else the safest."""
    # Results of older versions have the deficit only.
    constants = [n for n in references if n.startswith(CONSTANT) and form in references[n]]
    if not constants:
        return None

    def number(name: str, metric: str) -> float:
        return float(references[name][metric]["value"])

    within = [name for name in constants if number(name, form) <= FORMS[form].bound]
    if within:
        return max(within, key=lambda name: number(name, "pay_per_day"))
    return min(constants, key=lambda name: number(name, form))


def value(line: Line, name: str) -> float | None:
    found = line.metrics.get(name)
    return None if found is None else float(found["value"])


def shown(line: Line, name: str, scale: float = 1.0, digits: int = 1) -> str:
    """The value with its interval; a dash where there is none."""
    found = line.metrics.get(name)
    if found is None:
        return "-"
    text = f"{scale * found['value']:.{digits}f}"
    if found["interval"]:
        low, high = (f"{scale * bound:.{digits}f}" for bound in found["interval"])
        text += f" [{low}, {high}]"
    return text


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


def paper_table(lines: Sequence[Line], plan: Plan) -> list[list[str]]:
    """Week rows, algorithm columns: Pay in thousands | violations in %. Pay is less the least in
    the table, as in the paper: only differences mean anything.
    """
    own = [line for line in lines if line.kind == "algorithm" and line.week > 0]
    if not own:
        return []
    days = platform_days(plan)
    pay = {(line.week, line.name): (value(line, "pay_per_day") or 0.0) * days for line in own}
    least = min(pay.values())
    rows = [["week", *map(title, plan.algorithms)]]
    for week in sorted({line.week for line in own}):
        cells = [f"{week}"]
        for line in (each for each in own if each.week == week):
            violations = value(line, "vio_week")
            rate = "-" if violations is None else f"{100 * violations:.2f}"
            cells.append(f"{(pay[week, line.name] - least) / 1000:.2f} / {rate}")
        rows.append(cells)
    return rows


def full_table(lines: Sequence[Line], plan: Plan) -> list[list[str]]:
    days = platform_days(plan) / 1000
    rows = [
        [
            *("week", "policy", "kind", "pay (k)", "pay against incumbent (%)", "vio_week (%)"),
            *("vio_day (%)", "vio_exp (%)", "vio_week 5 % (%)", "vio_week 10 % (%)", "depth (%)"),
            *("ROI / target", "budget used (%)", "exhausted (%)", "win rate (%)", "mean k"),
            *("multiplier", "critic: conservative", "critic: realised", "critic spread"),
            *("train (s)", "simulate (s)", "rows"),
        ]
    ]
    for line in lines:
        multiplier = line.training.get("training", {}).get("multiplier")
        rows.append(
            [
                str(line.week),
                title(line.name),
                line.kind,
                shown(line, "pay_per_day", days),
                shown(line, "pay_change", 100.0),
                *(shown(line, f"vio_{kind}", 100.0) for kind in ("week", "day", "exp")),
                *(shown(line, f"vio_week_{tolerance}", 100.0) for tolerance in ("5%", "10%")),
                shown(line, "depth", 100.0, 2),
                shown(line, "roi_ratio", 1.0, 3),
                *(shown(line, name, 100.0) for name in ("utilisation", "exhausted", "win_rate")),
                shown(line, "mean_k", 1.0, 3),
                number(multiplier),
                *(number(line.calibration.get(n)) for n in ("conservative", "realised", "spread")),
                number(line.training.get("train_seconds"), 0),
                *shared_world(line),
            ]
        )
    return rows


def shared_world(line: Line) -> list[str]:
    """Seconds and rows of the simulation that all arms had in common."""
    if line.kind == "reference" or "rows" not in line.results:
        return ["-", "-"]
    return [number(line.results.get("simulation_seconds"), 0), str(line.results["rows"])]


def number(found: Any, digits: int = 3) -> str:
    return "-" if found is None else f"{float(found):.{digits}f}"


def frontier(lines: Sequence[Line], plan: Plan, path: Path) -> bytes:
    """Pay against violations, a point per week: Pay alone is had by bidding more."""
    figure = Figure(figsize=(8.0, 5.5), layout="constrained")
    axes = figure.add_subplot()
    draw_frontier(axes, [line for line in lines if line.week > 0], plan)
    axes.set_title(f"Simulated: {plan.preset}, world seed {plan.world_seed}; numbers are weeks")
    axes.legend(fontsize=7)
    content = figure_bytes(figure)
    write_atomically(path, content)
    return content


def figure_bytes(figure: Figure) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120, metadata={"Software": None})
    return content.getvalue()


def draw_frontier(axes: Any, lines: Sequence[Line], plan: Plan) -> None:
    """Lines of constants of the last week, of everybody else over the weeks."""
    days = platform_days(plan) / 1000
    drawn = [line for line in lines if not line.name.startswith(BEST_CONSTANT)]
    names = list(dict.fromkeys(line.name for line in drawn if not line.name.startswith(CONSTANT)))
    last = max((line.week for line in drawn), default=0)
    constants = sorted(
        (line for line in drawn if line.name.startswith(CONSTANT) and line.week == last),
        key=lambda line: constant(line.name),
    )
    if constants:
        draw(axes, constants, days, f"constant k, week {last}", "0.6", "--", None)
    for index, name in enumerate(names):
        own = [line for line in drawn if line.name == name]
        reference = own[0].kind != "algorithm"
        marker = "s" if reference else "o"
        colour = f"C{index}" if index < 10 else "black"  # matplotlib has ten
        draw(axes, own, days, title(name), colour, ":", marker)
    axes.set_xlabel("advertisers below their target ROI, % (Vio_week)")
    axes.set_ylabel("pay per week, thousands")


def draw(
    axes: Any, lines: Sequence[Line], days: float, label: str, colour: str, style: str, marker: Any
) -> None:
    known = [line for line in lines if value(line, "vio_week") is not None]
    rates = [100.0 * (value(line, "vio_week") or 0.0) for line in known]
    pays = [days * (value(line, "pay_per_day") or 0.0) for line in known]
    axes.plot(rates, pays, style, color=colour, marker=marker, label=label, linewidth=1.0)
    for line, rate, pay in zip(known, rates, pays, strict=True):
        is_constant = line.name.startswith(CONSTANT)
        text = f"{constant(line.name):g}" if is_constant else str(line.week)
        axes.annotate(text, (rate, pay), fontsize=7, xytext=(3, 3), textcoords="offset points")


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """The first row has the headings."""
    return markdown(rows[0], rows[1:]) if rows else ""


def write_csv(path: Path, rows: Sequence[Sequence[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_atomically(path, text.getvalue().encode())


def as_html(rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "<p>No week is finished yet.</p>"
    head, *body = rows

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return (
        "<div class=wide><table><thead>" + row(head, "th") + "</thead><tbody>"
        + "".join(row(cells, "td") for cells in body) + "</tbody></table></div>"
    )  # fmt: skip


STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;font-size:.8rem}td,th{border:1px solid #bbb;padding:.2rem "
    ".5rem;text-align:right;white-space:nowrap}.wide{overflow-x:auto}img{max-width:100%}"
)


def page(plan: Plan, paper: list[list[str]], full: list[list[str]], picture: bytes) -> str:
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
    paper, full = paper_table(lines, plan), full_table(lines, plan)
    write_csv(folder / "table-paper.csv", paper)
    write_csv(folder / "table-full.csv", full)
    picture = frontier(lines, plan, folder / "frontier.png")
    text = (
        f"# Semi-batch bidding, simulated\n\n{caption(plan)}\n\nPay in thousands, less the least "
        f"in the table / violations in %:\n\n{as_markdown(paper)}\n\n{as_markdown(full)}\n"
    )
    write_atomically(folder / "tables.md", text.encode())
    write_atomically(folder / "index.html", page(plan, paper, full, picture).encode())
