"""Ten lists of attributes whose groups are known: two or three say the same in other words, the rest only look alike."""

from __future__ import annotations

GROUPS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (
        ("Opens by praising the user's question", "Begins with a compliment on what the user asked"),
        ("Ends by praising the user's question",),
        ("Uses bullet points", "Sets its points out as a bulleted list"),
        ("Uses numbered steps",),
        ("Repeats its main point at the end",),
    ),
    (
        ("Hedges most claims with words such as may or might", "Words nearly every statement as a mere possibility"),
        ("States every claim with full certainty",),
        ("Names a source for its facts", "Says where its facts come from"),
        ("Invents statistics",),
        ("Admits that it does not know something",),
    ),
    (
        ("Addresses the user by name",),
        ("Ends with an offer of further help", "Closes by offering to help with anything else"),
        ("Ends with a question to the user",),
        ("Is written in the first person plural, with we and us", "Speaks as we rather than I or you"),
        ("Is written in the second person",),
    ),
    (
        ("Puts key terms in bold type", "Sets important words in boldface"),
        ("Puts key terms in italics",),
        ("Has section headings", "Divides the text under headers"),
        ("Contains an emoji",),
        ("Puts the title of the topic in capital letters",),
    ),
    (
        ("Uses technical terms where everyday words would do", "Prefers specialist jargon to plain words",
         "Is written in needlessly technical vocabulary"),
        ("Explains technical terms in plain words",),
        ("Uses foreign words",),
        ("Uses long sentences with many clauses",),
    ),
    (
        ("Is much longer than its content needs", "Takes far more words than what it says requires"),
        ("Is very brief",),
        ("Gives a worked example", "Illustrates a point with a concrete example"),
        ("Gives an analogy from daily life",),
        ("Gives the exact number or amount",),
        ("Lists exceptions to the rule",),
    ),
    (
        ("Agrees with the opinion that the user stated", "Sides with the view the user has expressed"),
        ("Contradicts the opinion that the user stated",),
        ("Presents arguments for both sides", "Lays out the case for and the case against"),
        ("Refuses to take a position",),
        ("Warns about safety risks", "Points out dangers to the reader's safety"),
    ),
    (
        ("Begins with a direct answer in the first sentence", "Gives the answer straight away, in its opening sentence"),
        ("Gives the answer only at the end",),
        ("Restates the question before answering", "First repeats what was asked in its own words"),
        ("Has no introduction",),
        ("Ends with a summary",),
        ("Ends with a warning",),
    ),
    (
        ("Contains exclamation marks", "Ends some of its sentences with exclamation points"),
        ("Contains rhetorical questions", "Asks questions that it does not expect to be answered"),
        ("Contains semicolons",),
        ("Contains parenthetical remarks",),
        ("Contains two spaces after each full stop",),
    ),
    (
        ("Tells a personal anecdote", "Relates a story from the speaker's own life"),
        ("Mentions that it is an AI", "Says of itself that it is a language model"),
        ("Recommends consulting a professional", "Advises the reader to see an expert"),
        ("Recommends a product by brand name",),
        ("Expresses sympathy for the user's feelings",),
    ),
)  # fmt: skip
