"""Single sign-on against real, unmodified identity providers: see scripts/sso."""
