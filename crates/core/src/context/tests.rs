mod compaction;
mod discover;
mod gauge;
