from prudent.cli import main

main()
