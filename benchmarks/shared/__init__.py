"""What the scripts share: options, problems, forests kept on disk, and the writing of what was measured."""
