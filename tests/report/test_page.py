"""The page of a report in a real browser: Debian's chromium-headless-shell, or what is there."""

import json
import os
import shutil

import pytest

from prudent.cli.report import whole_report

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=2'>"
ALGORITHM = '<b>bold</b> & "quoted" %{x} $y$'
FOLDER = "c <i>slanted &lt;"
SEEDS = {"cal": 6, "ucb": 2, ALGORITHM: 1}


def write_run(folder, task, algorithm, seed, sampled=False, **settings):
    """Test cost 4, return step/10 + seed; 40 training episodes that cost 0, 1, 2, ..."""
    folder.mkdir(parents=True)
    run = {
        "algorithm": algorithm, "task": task, "preset": "default", "seed": seed, "budget": 5.0,
        "discounted": False, "schedule": {"steps": 100}, "config": settings,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps({"format": 2, "run": run}))
    progress = []
    for step in range(0, 101, 10):
        tested = {"return": step / 10 + seed, "cost": 4.0, "length": 7, "within_budget": 1.0}
        line = {"step": step, "evaluation": tested, "window_seconds": 1.0}
        line["training"] = {"ensemble_spread": 1.0, "multiplier": 0.5}
        progress.append(line | ({"sampled_evaluation": tested} if sampled else {}))
    episodes = [{"phase": "training", "cost": float(cost)} for cost in range(40)]
    gaps = [{"step": step, "format": 1, "snapshot": "x", "gap": -1.5} for step in (0, 50, 100)]
    for name, entries in (("progress", progress), ("episodes", episodes), ("diagnostics", gaps)):
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (folder / f"{name}.jsonl").write_text(text)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Two tasks, one of them with a name that tries to be code; and a damaged folder."""
    place = tmp_path_factory.mktemp("page")
    for algorithm, seeds in SEEDS.items():
        for seed in range(seeds):
            name = f"{list(SEEDS).index(algorithm)}-{seed}"
            write_run(place / "runs" / "a" / name, "orbit", algorithm, seed, sampled=seeds == 2)
    write_run(place / "runs" / "b", HOSTILE, "cal", 0, note=HOSTILE)
    (place / "runs" / FOLDER).mkdir()
    (place / "runs" / FOLDER / "run.json").write_text("no JSON")
    out = place / "report"
    whole_report([place / "runs"], out, log_steps=False)
    return out / "index.html"


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    playwright = None
    try:
        from playwright.sync_api import sync_playwright as playwright
    except ImportError:
        found = None
    if found is None or playwright is None:
        if os.environ.get("PRUDENT_REQUIRE_BROWSER"):
            pytest.fail("no Chromium or no playwright, and PRUDENT_REQUIRE_BROWSER is set")
        pytest.skip("needs Chromium (apt-get install chromium-headless-shell) and playwright")
    with playwright() as driver:
        # Its sandbox does not start for root, as whom CI runs; it sees only pages made here.
        chromium = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Seen:
    """A page that is open, and all that it said, asked for or failed at."""

    def __init__(self, browser, address, **view):
        self.said, self.requested = [], []
        self.page = browser.new_page(**view)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.goto(address)
        self.page.wait_for_selector("body[data-ready=true]", timeout=60_000)

    def plot(self, task, name):
        """The data of a plot once it is drawn, which it is when it comes into sight."""
        figure = self.page.locator(f"figure[data-task='{task}'][data-name={name}]")
        figure.scroll_into_view_if_needed()
        self.page.wait_for_function(
            "figure => figure.dataset.traces && figure.querySelector('.canvas').data",
            arg=figure.element_handle(),
            timeout=60_000,
        )
        return figure.locator(".canvas").evaluate("canvas => canvas.data")


@pytest.fixture
def open_page(browser, report):
    opened = []

    def look(address=None, **view):
        opened.append(Seen(browser, address or report.as_uri(), **view))
        return opened[-1]

    yield look
    for seen in opened:
        seen.page.close()
        assert seen.said == []


def means(traces):
    """The thick lines by name."""
    return {t["name"]: t for t in traces if t.get("line", {}).get("width") == 2.2}


def test_it_loads_without_errors_and_asks_for_nothing_but_itself(open_page, report):
    seen = open_page()
    for name in ("return", "cost", "boxes", "gap", "spread", "multiplier"):
        assert seen.plot(0, name)
    assert seen.requested == [report.as_uri()]
    assert report.stat().st_size < 3e6
    text = report.read_text()
    assert "http-equiv" not in text
    assert " src=" not in text.split('id="plotly"')[0].replace("&lt;img src=", "")


def test_no_button_sends_the_runs_away(open_page):
    """Plotly has one that shares a chart on a server of its makers."""
    seen = open_page()
    seen.plot(0, "return")
    buttons = seen.page.locator(".modebar-btn").evaluate_all(
        "found => found.map(button => button.dataset.title)"
    )
    assert "Pan" in buttons
    assert not [title for title in buttons if "Share" in title or "loud" in title]


def test_the_numbers_are_those_of_the_runs(open_page):
    seen = open_page()
    thick = means(seen.plot(1, "return"))["cal (default)"]
    assert thick["x"] == list(range(0, 101, 10))
    assert thick["y"] == [step / 10 + 2.5 for step in thick["x"]]  # seeds 0 to 5
    (gap,) = means(seen.plot(0, "gap")).values()
    assert gap["y"] == [-1.5, -1.5, -1.5]
    box = next(t for t in seen.plot(0, "boxes") if t["type"] == "box")
    # A quarter is ten episodes, the first cost 0 to 9: quartiles 2.25, 4.5 and 6.75.
    assert (box["q1"][0], box["median"][0], box["q3"][0]) == (2.25, 4.5, 6.75)
    assert (box["lowerfence"], box["upperfence"]) == ([0, 10, 20, 30], [9, 19, 29, 39])


def test_a_band_only_where_there_are_five_seeds(open_page):
    seen = open_page()
    traces = seen.plot(1, "return")
    assert sum(t.get("fill") == "tonexty" for t in traces) == 1  # of cal's six seeds
    thin = [t["name"] for t in traces if t.get("line", {}).get("width") == 1]
    assert thin == ["ucb (default)"] * 2 + ["ucb (default), sampled"] * 2
    seen.page.select_option("#seeds", "always")
    assert len(seen.plot(1, "return")) == len(traces) + 6
    seen.page.select_option("#seeds", "never")
    assert len(seen.plot(1, "return")) == len(traces) - 4


def test_filters_of_tasks_algorithms_and_groups(open_page):
    page = (seen := open_page()).page
    first, second = page.locator("section.task").all()
    page.get_by_role("checkbox", name="orbit").uncheck()
    assert (first.is_visible(), second.is_visible()) == (True, False)
    page.get_by_role("checkbox", name="orbit").check()
    page.locator("input[name=algorithm][value=cal]").uncheck()
    assert not first.is_visible()  # cal is all it has
    assert "cal (default)" not in means(seen.plot(1, "cost"))
    assert "ucb (default)" in means(seen.plot(1, "cost"))
    assert not second.locator("tr", has_text="cal (default)").first.is_visible()
    second.locator("button.group", has_text="ucb").click()
    assert list(means(seen.plot(1, "cost"))) == [
        '&lt;b&gt;bold&lt;/b&gt; &amp; "quoted" %{x} $y$ (default)'
    ]
    page.get_by_role("button", name="all / none").nth(1).click()  # there is one off: all on
    assert first.is_visible()
    page.get_by_role("button", name="all / none").nth(1).click()
    assert page.locator("#nothing").is_visible()
    assert page.locator("section.task:visible").count() == 0


def test_steps_on_a_logarithmic_axis_and_sampled_evaluations(open_page):
    page = (seen := open_page()).page
    axis = "canvas => canvas.layout.xaxis.type"
    seen.plot(1, "return")
    canvas = page.locator("figure[data-task='1'][data-name=return] .canvas")
    assert canvas.evaluate(axis) == "linear"
    page.locator("#logarithmic").check()
    assert canvas.evaluate(axis) == "log"
    sampled = page.locator("section.task tr", has_text="sampled")
    assert sampled.is_visible()
    page.locator("#sampled").uncheck()
    assert not sampled.is_visible()
    assert "ucb (default), sampled" not in means(seen.plot(1, "return"))


def test_hostile_names_are_text(open_page):
    page = (seen := open_page()).page
    for name in ("return", "boxes", "spread"):
        seen.plot(0, name), seen.plot(1, name)
    assert page.evaluate("window.hacked") is None
    assert page.locator("section.task h2").first.inner_text() == HOSTILE
    assert page.locator("label.chip", has_text=HOSTILE).count() == 1
    assert page.locator("button.group", has_text=f"{ALGORITHM} (default)").count() == 1
    assert page.locator("main img, main h2 b, button b, label b, td b").count() == 0
    assert f"{FOLDER}/run.json:1: not a JSON" in page.locator("#cautions").inner_text()
    # What Plotly says when the pointer is on the curve.
    traces = seen.plot(1, "return")
    place = [index for index, trace in enumerate(traces) if "bold" in trace.get("name", "")][-1]
    canvas = page.locator("figure[data-task='1'][data-name=return] .canvas")
    canvas.evaluate(
        f"canvas => Plotly.Fx.hover(canvas, [{{curveNumber: {place}, pointNumber: 3}}])"
    )
    said = page.locator("figure[data-task='1'][data-name=return] .hoverlayer").text_content()
    assert f"{ALGORITHM} (default), seed 0" in said
    assert "step 30: 3" in said


def test_warnings_and_tables_are_there_without_scripts(report, browser):
    page = browser.new_page(java_script_enabled=False)
    page.goto(report.as_uri())
    cautions = page.locator("#cautions").inner_text()
    assert "Too few seeds" in cautions
    assert '1 (<b>bold</b> & "quoted" %{x} $y$ (default)); 2 (ucb (default))' in cautions
    assert "run.json:1: not a JSON object (Expecting value); restore the file" in cautions
    row = page.locator("section.task").last.locator("tbody tr", has_text="cal (default)").first
    # Seeds' final values are 5.5 to 10.5: mean 8.0, half width 2.5706 * 1.8708 / sqrt 6 = 1.96.
    assert "8.0 [6.0, 10.0]" in row.inner_text()
    assert page.locator("noscript, p", has_text="Plots need JavaScript").count()
    page.close()


def test_choices_outlive_a_reload(open_page):
    page = (seen := open_page()).page
    page.locator("input[name=task]").last.uncheck()
    page.select_option("#seeds", "never")
    page.reload()
    page.wait_for_selector("body[data-ready=true]", timeout=60_000)
    assert not page.locator("section.task").last.is_visible()
    assert page.locator("#seeds").input_value() == "never"
    assert seen.page.locator("section.task").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_screens_and_both_colour_schemes(open_page, scheme):
    seen = open_page(viewport={"width": 380, "height": 700}, color_scheme=scheme)
    seen.plot(1, "return")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert seen.page.evaluate(wide) <= 0
    ink, paper = (
        seen.page.evaluate(f"getComputedStyle(document.body).{name}")
        for name in ("color", "backgroundColor")
    )
    bright = [sum(map(int, colour[4:-1].split(","))) for colour in (ink, paper)]
    assert (bright[0] > bright[1]) == (scheme == "dark")
    assert abs(bright[0] - bright[1]) > 400  # of 765
