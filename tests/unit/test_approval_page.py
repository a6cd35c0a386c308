"""What a business owner reads: the drop stands first, and every number is there."""

from release_tasks.approval_page import Page, percent, render
from release_tasks.judge.regression import compare
from release_tasks.spec.cases import BusinessCase
from tests.unit.samples import SPEC, as_spec


def _case(name: str, tag: str, hard: bool = False) -> BusinessCase:
    return BusinessCase(
        id=name, title=f"Family | {name}", tags=(tag,), model="ranker", inputs={"features": [[0.0]] * 3},
        output="score", relevant=(0,), hard=hard, min_score=0.5 if hard else 0,
    )  # fmt: skip


def _page(candidate: float, stable: float | None) -> str:
    scores = [compare(_case("a", "baby"), candidate, stable, 0.2), compare(_case("b", "meat", True), 0.9, 0.9, 0.2)]
    return render(Page(as_spec(SPEC), "shop-2", "d" * 64, "shop-1" if stable else None, scores, []))


def test_a_group_that_drops_stands_out_with_its_figure() -> None:
    page = _page(0.59, 1.0)
    assert "⚠ **baby: −41 %**" in page
    assert "| Family / a | 1.000 | 0.590 | −41 % | soft | ⚠ drop |" in page
    assert page.index("baby: −41 %") < page.index("| case |")
    assert "d" * 64 in page
    assert "Nobody answering within 24 h means rejected" in page


def test_nothing_flagged_says_so_and_a_first_release_has_no_comparison() -> None:
    assert "No case and no group drops by more than 20%" in _page(0.95, 1.0)
    first = _page(0.95, None)
    assert "there is no stable to compare" in first
    assert "| Family / a | – | 0.950 | – |" in first


def test_percent_has_a_sign() -> None:
    assert (percent(0.05), percent(-0.4), percent(None)) == ("+5 %", "−40 %", "–")
