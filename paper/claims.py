"""What the paper says of its experiments, each claim with a measurement and a rule.

A claim is a list of comparisons that must all be met; `verdicts` says what follows from them. No
verdict is written by hand. Claims of the theory are in `theory_claims`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from paper.comparisons import (
    RIVALS,
    Evidence,
    above_exact,
    ahead,
    diagonal,
    edge,
    few_mistakes,
    flat,
    sample_helps,
    settings,
    several,
    suited,
    superior,
)
from paper.contestants import CONTESTANTS
from paper.summary import precision, recall
from paper.verdicts import Comparison, Verdict, judge, tell

SSBC = ("ssbc-paper", "ssbc")
KEPT = 0.95  # of MAP, that codes given out at once must keep


class Claim(NamedTuple):
    """place, text: where the paper says what; rule: what is compared, and what counts as met.

    compare: (evidence, method) -> comparisons, for each method of `who`; remark: what else to
    know about the sentence.
    """

    name: str
    place: str
    text: str
    rule: str
    compare: Callable[[Evidence, str], list[Comparison]]
    who: Sequence[str] = SSBC
    remark: str = ""


class Finding(NamedTuple):
    """A claim about one method, judged."""

    claim: Claim
    method: str
    verdict: Verdict
    measured: str

    @property
    def who(self) -> str:
        """The method's title; nothing for a claim about none."""
        return CONTESTANTS[self.method].title if self.method else ""


def judged(claims: Sequence[Claim], evidence: Evidence) -> list[Finding]:
    """Every claim with its verdict."""
    findings = []
    for claim in claims:
        for method in claim.who:
            found = claim.compare(evidence, method)
            measured = tell(found) if found else "No results for it here."
            findings.append(Finding(claim, method, judge(found), measured))
    return findings


RESULTS = "Section 5, what the text reads from Figures 1 to 4"
EXACT = "Section 5, what the text reads from Figure 5"
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "highest precision",
        RESULTS,
        "SSBC performs exceptionally well on precision, [...] consistently providing the highest "
        "precision of the methods evaluated.",
        "Precision at the matched radius above that of MDSH, LSH and SH, on every data set and at "
        "every length from 20 to 50 bits.",
        ahead(precision),
    ),
    Claim(
        "few false positives",
        RESULTS,
        "[...] providing very few “false positives” compared to the other algorithms",
        "False positives a query within the matched radius: fewer than half of each rival's.",
        few_mistakes,
    ),
    Claim(
        "best recall",
        RESULTS,
        "On recall metric also SSBC provides the best results over all the approaches evaluated.",
        "Recall at the matched radius above that of MDSH, LSH and SH, likewise.",
        ahead(recall),
    ),
    Claim(
        "edge at every length",
        RESULTS,
        "In both cases, this edge in performance is maintained over all tested ranges of length "
        "k ∈ [20,50] of codewords.",
        "For each data set, and for precision and recall: ahead of the best rival at the length "
        "where the lead is smallest.",
        edge,
    ),
    Claim(
        "45 degrees",
        RESULTS,
        "[...] precision-recall comparison (last plot in all above mentioned figures) which shows "
        "that SSBC forms an almost 45-degree line in all figures",
        "Precision and recall at the matched radius differ by less than 0.1 at every length.",
        diagonal,
        (*SSBC, *RIVALS),
        "A radius at which as many rows are returned as are true has precision = recall for any "
        "method: the line says something about the threshold, not about SSBC. Hence the rivals "
        "are judged too.",
    ),
    Claim(
        "mistakes do not increase",
        RESULTS,
        "i.e. basically its mistake rate does not increase by returning more candidates for "
        "nearest neighbours (having high recall).",
        "Precision where recall reaches 0.9 at most 0.05 below precision where it reaches 0.1.",
        flat,
        SSBC,
        "A mistake rate that does not increase is a level line, not one of 45 degrees: the two "
        "halves of the sentence exclude each other.",
    ),
    Claim(
        "better than exact",
        EXACT,
        "SSBC secures higher mean average precision and recall than the exact methods, “exact-D” "
        "and “exact-R” which solve the matrix optimization by applying an SVD over enitre dataset.",
        "MAP, and recall at the matched radius, above both at every length.",
        above_exact,
    ),
    Claim(
        "a sample helps",
        EXACT,
        "This is likely because maintaining a column sample of the weight matrix through a "
        "training set helps prevent overfitting errors.",
        "MAP above that of Exact-D, which rounds in the same way and has all columns of W.",
        sample_helps,
        ("ssbc-paper",),
        "If it is met, the sample does help; whether against overfitting is not tested.",
    ),
    Claim(
        "suited to spectral hashing",
        "Section 5, Datasets",
        "We added such dataset [Uniform] here so as to evaluate SSBC for a dataset model well "
        "suited to their algorithm [spectral hashing].",
        "MAP of SH on Uniform above that of LSH, which learns nothing, at every length.",
        suited,
        ("sh",),
    ),
    Claim(
        "outperforms several",
        "Abstract",
        "Our experimental results compete outperform several of the most popularly used algorithms",
        "MAP above at least two of MDSH, LSH and SH, at each of the three similarity levels.",
        several,
    ),
    Claim(
        "superior accuracy",
        "Section 2.2",
        "[...] we argue that solving for the matrix approximation directly addresses the original "
        "optimization problem without such restrictions, thereby achieving the superior accuracy "
        "our experiments demonstrate.",
        "MAP above those with learned eigenfunctions, MDSH and SH, at the three levels.",
        superior,
    ),
    Claim(
        "updates adapt",
        "Section 2.2, against Section 2.1's “do not adapt as more points are streamed in”",
        "We maintain a sketch of the weight matrix instead, and adjust it during the course of "
        "the stream.",
        "MAP with V learned to the end above MAP with V frozen after the first 2 l rows.",
        settings("end", "frozen", lambda mine, other: mine - other),
    ),
    Claim(
        "online codes",
        "Section 3.2",
        "A notable point about SSBC is that it can construct binary codewords on the fly in an "
        "online manner, i.e. using current iteration's matrix V to generate the binary codeword "
        "for current datapoint.",
        "MAP of codes given out at once at least 95 % of MAP of codes given out at the end.",
        settings("online", "end", lambda mine, other: mine - KEPT * other),
        SSBC,
        "An SVD leaves signs open and swaps close vectors, so codes of different moments hardly "
        "compare. Ours turns every new V to the last one.",
    ),
)
