"""An open-loop load: arrivals on a schedule, made by processes of their own, summed up afterwards."""
