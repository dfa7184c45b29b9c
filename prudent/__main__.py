from prudent.cli import main

if __name__ == "__main__":  # environments in processes of their own import this as well
    main()
