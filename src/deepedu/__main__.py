"""``python -m deepedu``."""

from deepedu.cli.main import main

if __name__ == "__main__":
    main()
