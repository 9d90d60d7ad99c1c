"""What `hybridge train` commands take."""

from typing import Annotated

import typer

from cloud.cli.learning_completion import active_jobs, jobs, teams

JobName = Annotated[
    str, typer.Argument(metavar="JOB", help="Its id.", autocompletion=jobs, show_default=False)
]
ActiveJob = Annotated[
    str,
    typer.Argument(metavar="JOB", help="Its id.", autocompletion=active_jobs, show_default=False),
]
TeamName = Annotated[
    str,
    typer.Argument(metavar="TEAM", help="Its name.", autocompletion=teams, show_default=False),
]
Comment = Annotated[
    str, typer.Option("--comment", "-m", help="Why; stays with the job.", show_default=False)
]
Follow = Annotated[
    bool,
    typer.Option("--follow", "-w", help="Follow its log until it is over; Ctrl-C detaches."),
]
