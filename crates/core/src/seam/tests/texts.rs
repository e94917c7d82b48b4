//! Answers as models give them, to be cut anywhere.

/// Texts that say nothing twice at length.
pub(super) const PLAIN: &[&str] = &[PROSE, GUIDE, CODE, LIST, LETTER, HAN];

/// Texts that repeat themselves and mean it.
pub(super) const REPEATING: &[&str] = &[SONG, TABLE, RECORDS, PLAN, DRILL];

const PROSE: &str = "Tides are the slow breathing of the sea. Twice a day, on most coasts, the water climbs the beach and \
falls back again, and the reason is not in the water but far above it. The moon pulls at the near side of the earth a little \
harder than at its centre, and at the centre a little harder than at the far side. What remains of that difference is a \
stretch: two bulges, one below the moon and one opposite.\n\nThe earth turns under these bulges once a day, so every harbour \
passes through both. That is why there are two high tides, roughly twelve hours and twenty-five minutes apart. The extra \
minutes come from the moon itself, which has moved on along its orbit while we turned.\n\nCoasts complicate the picture. A \
narrow bay can amplify the wave until boats lie on dry mud at noon and float above the pier at dusk; an enclosed sea hardly \
notices. Winds push water against one shore and away from another. Sailors therefore never trusted theory alone. They kept \
tables, port by port, corrected by hand, and passed them on like recipes.\n";

const GUIDE: &str = "# Backing up a small server\n\nSure! Here is a short guide that covers the usual cases.\n\n## Before you \
start\n\n- Find out which directories change every day.\n- Decide how much data you can afford to lose.\n- Buy a disk that \
is twice as large as you think you need.\n\n## Steps\n\n1. Stop the services that write to the database.\n2. Take a snapshot \
of the volume, then start everything again.\n3. Copy the snapshot to the other machine with rsync.\n4. Verify a few files by \
hand; a backup nobody has read is only a hope.\n\n| What | How often | Where |\n|---|---|---|\n| Database | every hour | \
second rack |\n| Mail | nightly | tape library |\n| Photos | weekly | friend's basement |\n\n## Afterwards\n\nWrite down what \
you did and how long it took. Next year you will have forgotten both, and the person who restores the system at three in \
the morning will be grateful for every line.\n";

const CODE: &str = "Here is the function you asked for. It reads a file line by line and counts how often each word \
appears.\n\n```rust\nuse std::collections::HashMap;\nuse std::io::{BufRead, BufReader};\n\npub fn count(path: &Path) -> \
io::Result<HashMap<String, usize>> {\n    let file = BufReader::new(File::open(path)?);\n    let mut words = \
HashMap::new();\n    for line in file.lines() {\n        for word in line?.split_whitespace() {\n            \
*words.entry(word.to_lowercase()).or_default() += 1;\n        }\n    }\n    Ok(words)\n}\n```\n\nNotice that the reader is \
buffered: without it every line would cost a system call. If the file does not fit into memory you need nothing else, \
because only the distinct words are kept. To print the most frequent ones, collect the pairs into a vector and sort it \
descending by the second field.\n";

const LIST: &str = "There are several reasons why the build became slow:\n\n- The linker runs after every change, even when \
only a comment moved.\n- Two crates depend on each other through a macro, so the compiler cannot work on them in \
parallel.\n- Integration tests are separate binaries; each of them links the whole world again.\n- Debug information for \
dependencies is written and never read.\n\nI would begin with the third point. Moving all integration tests into one binary \
is an afternoon of work, and on your machine it should save about four minutes per run. After that, turn off debug \
information for dependencies in the profile. The macro is the hardest part: it wants a crate of its own, and a week.\n";

const LETTER: &str = "Dear Margarethe,\n\nthank you for the plum jam, which arrived on Tuesday without a single crack in the \
glass. Oskar says it tastes of late September and woodsmoke; I would add a little cinnamon, but you know how he is about \
spices. We ate half of it standing in the kitchen.\n\nThe garden has been difficult this year. Slugs took the lettuce \
first, then the beans, and finally a whole row of dahlias that I had carried through two winters. My neighbour swears by \
copper wire, the postman recommends beer. So far only the hedgehog has been of any use, and he keeps irregular hours.\n\nCome \
and see us before the clocks change. The guest room is dry again, the roof has been mended, and I have found the old record \
player in the attic together with a box of waltzes.\n\nYours,\nHelene\n";

const HAN: &str = "潮汐是海洋缓慢的呼吸。在大多数海岸，海水每天两次涨上沙滩，又两次退回去，原因并不在水里，而在高高的天上。\
月亮对地球近侧的引力比对地心稍强，对地心又比对远侧稍强。这种差别留下的是一种拉伸：一个隆起在月亮下面，另一个在相反的方向。\n\n\
地球每天在这两个隆起之下转动一周，因此每个港口都会经过它们。这就是为什么一天有两次高潮，相隔大约十二小时二十五分钟。\
多出来的几分钟来自月亮本身，它在我们转动的时候也沿着轨道前进了一段。\n";

const SONG: &str = "The ferry leaves at seven and the harbour lights are low,\nmy coat is full of winter and my pockets full \
of snow.\n\nOh row me over, row me over, row me to the shore,\nthe river took my sweetheart and I won't be back no \
more.\n\nThe baker's lad was singing when the church bell lost its tongue,\nhe sang about the summer that was over when it \
sprung.\n\nOh row me over, row me over, row me to the shore,\nthe river took my sweetheart and I won't be back no \
more.\n\nNow seven years are drifting and the ferryman is grey,\nhe counts the coins at midnight and he throws the coins \
away.\n\nOh row me over, row me over, row me to the shore,\nthe river took my sweetheart and I won't be back no more.\n";

const TABLE: &str = "| Day | Opening hours | Counter |\n|---|---|---|\n| Monday | nine to five | main hall |\n| Tuesday | nine \
to five | main hall |\n| Wednesday | closed | closed |\n| Thursday | nine to five | main hall |\n| Friday | nine to five | \
main hall |\n| Saturday | ten to noon | side door |\n| Sunday | closed | closed |\n\nOn holidays the counter is closed.\n";

const RECORDS: &str = "```json\n[\n  {\n    \"name\": \"harbour\",\n    \"status\": \"not started\",\n    \"owner\": \
\"nobody\",\n    \"tags\": [\"water\", \"stone\"]\n  },\n  {\n    \"name\": \"lighthouse\",\n    \"status\": \"not \
started\",\n    \"owner\": \"nobody\",\n    \"tags\": [\"light\", \"stone\"]\n  },\n  {\n    \"name\": \"pier\",\n    \
\"status\": \"not started\",\n    \"owner\": \"nobody\",\n    \"tags\": [\"water\", \"wood\"]\n  }\n]\n```\nAll three records \
have the same shape.\n";

const PLAN: &str = "Monday: warm up for ten minutes, run for twenty minutes at an easy pace, then stretch your legs.\nTuesday: \
rest, or walk for half an hour.\nWednesday: warm up for ten minutes, run for twenty-five minutes at an easy pace, then stretch \
your legs.\nThursday: rest, or swim for half an hour.\nFriday: warm up for ten minutes, run for thirty minutes at an easy pace, \
then stretch your legs.\nSaturday: rest, or cycle for an hour.\nSunday: warm up for ten minutes, run as long as you like, then \
stretch your legs.\n";

const DRILL: &str = "Repeat after me. I will not feed the goose. I will not feed the goose. I will not feed the goose. Good. \
Once more, and louder: I will not feed the goose. And now the other one: I will not chase the swan. I will not chase the swan. \
Very good.\n";
