"""The private algorithms, a file each: settings, how one step moves the weights, and what that promises."""
