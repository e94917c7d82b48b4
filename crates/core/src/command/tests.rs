mod answers;
mod inbox;
mod matrix;
