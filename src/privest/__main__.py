"""`python -m privest`: the same as the command `privest`."""

from privest.cli import main

main()
