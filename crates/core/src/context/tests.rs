mod compaction;
mod discover;
mod earlier;
mod gauge;
