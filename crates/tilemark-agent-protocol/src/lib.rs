//! What the host and the agent say to each other, over any byte stream.
