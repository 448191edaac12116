"""Human studies: contrasts for people to judge, and their votes back."""
