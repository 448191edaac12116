"""Parts that need no network and no key: texts we wrote, a small reward model, rule-based rewriters and labellers."""
