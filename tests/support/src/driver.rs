//! A small Lambda Runtime API that runs the real binaries of functions.
