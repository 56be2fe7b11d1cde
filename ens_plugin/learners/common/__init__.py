"""What several learners use of other libraries' training."""
