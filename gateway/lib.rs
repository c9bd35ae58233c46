//! The map of the program.
