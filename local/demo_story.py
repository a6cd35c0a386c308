"""What the demo releases, in which order, and how each candidate should end."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Chapter:
    """One candidate.

    Attributes:
        recipe: what is trained.
        verdict: how it should end.
        stage: at which stage.
        after: recipe and milestone that this one waits for; builds overlap with the release before.
    """

    recipe: str
    verdict: str
    stage: str
    after: tuple[str, str] | None = None


# Milestones, in order: the load test is over; a person is asked; users' traffic begins to move; all is over.
LOADED, ASKED, PROMOTION, END = "loaded", "asked", "promotion", "end"

# Builds overlap with the release before, but never with its load test: on a machine of two cores a build beside it
# would be measured as the candidate's latency.
STORY = (
    Chapter("good", "stable", "promote"),
    Chapter("swapped_weights", "stopped", "parity", ("good", LOADED)),
    Chapter("better", "promoted", "promote", ("good", ASKED)),
    Chapter("baby_regression", "rejected", "approve", ("better", PROMOTION)),
    Chapter("oversized", "stopped", "size_gate", ("baby_regression", LOADED)),
    Chapter("slow", "rolled back", "canary", ("baby_regression", ASKED)),
    Chapter("erring", "rolled back", "canary", ("slow", PROMOTION)),
)


@dataclass(frozen=True)
class Row:
    """One line of the table at the end."""

    candidate: str
    verdict: str
    stage: str
    reason: str
    stable_after: str
    user_requests_failed: int
    seconds: float

    def as_json(self) -> dict[str, object]:
        """For the summary file."""
        return asdict(self)


def faults(rows: dict[str, Row], story: tuple[Chapter, ...] = STORY) -> list[str]:
    """What did not end as it should; empty when everything did."""
    found = []
    stable = "none"
    for chapter in story:
        row = rows.get(chapter.recipe)
        if row is None:
            found.append(f"{chapter.recipe}: did not end")
            continue
        if (row.verdict, row.stage.partition("_")[0]) != (chapter.verdict, chapter.stage.partition("_")[0]):
            found.append(
                f"{chapter.recipe}: {row.verdict} at {row.stage}, wanted is {chapter.verdict} at {chapter.stage}"
            )
        if chapter.verdict in ("stable", "promoted") and row.user_requests_failed:
            found.append(f"{chapter.recipe}: {row.user_requests_failed} requests of users failed in its promotion")
    for chapter in story:
        row = rows.get(chapter.recipe)
        if row is None or chapter.after is None:
            stable = chapter.recipe if row else stable
        elif chapter.verdict == "promoted":
            stable = chapter.recipe
        elif chapter.verdict == "rolled back" and row.stable_after != stable:
            found.append(f"{chapter.recipe}: stable afterwards is {row.stable_after}, wanted is {stable}")
    return found


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    head = ("candidate", "verdict", "stage", "reason", "stable after", "user requests failed", "seconds")
    lines = [head] + [
        (
            r.candidate,
            r.verdict,
            r.stage,
            _cut(r.reason),
            r.stable_after,
            str(r.user_requests_failed),
            f"{r.seconds:.0f}",
        )
        for r in rows
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([text[0], "  ".join("-" * width for width in widths), *text[1:]])


def _cut(text: str, limit: int = 90) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
