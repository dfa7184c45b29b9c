"""The paper's tasks and baselines, and the settings that its experiments vary."""

NAVIGATION = ("point-button1", "point-button2", "car-button1", "car-button2", "point-push1")
VELOCITY = ("ant-velocity", "halfcheetah-velocity", "hopper-velocity", "humanoid-velocity")
ALL_TASKS = (*NAVIGATION, *VELOCITY)
OFF_POLICY = ("sac-pid", "wcsac", "cvpo")
ON_POLICY = ("pdo", "rcpo", "ipo", "crpo", "cup")
VARIED = ("conservatism", "convexity", "cost_critics", "updates_per_step")
