"""How fast this machine learns, against what it could: learners against their roofline, on-policy
training and environments against the bare simulation.
"""
