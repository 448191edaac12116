"""Human studies: which people judge which contrasts, on which page, and what their answers say."""
