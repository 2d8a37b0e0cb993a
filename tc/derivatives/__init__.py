"""What frameworks that transform and store functions ask for: functions that follow from functions
(gradients, tangents, batches), each made once, and functions by texts alone."""
