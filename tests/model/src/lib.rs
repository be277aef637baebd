//! The protocol as a model that is checked exhaustively.
