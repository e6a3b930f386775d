"""The doors: ways into Stoker for whoever is not a Python program.

A door translates; it decides nothing about a job's life. Whatever it is asked for goes to the desk.
"""
