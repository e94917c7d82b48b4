// Compresses the built files of the page into a directory of the build script, and lists them: one line per file, with its
// path, a name for the compressed files, and a hash of its content. The same input gives the same bytes.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const [from, to] = process.argv.slice(2);

function* files(directory, path) {
    const entries = readdirSync(directory, { withFileTypes: true });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
        const inside = join(directory, entry.name);
        if (entry.isDirectory()) yield* files(inside, `${path}${entry.name}/`);
        else if (!entry.name.startsWith(".") && !entry.name.endsWith(".map")) yield [inside, path + entry.name];
    }
}

let number = 0;
for (const [file, path] of files(from, "/")) {
    const plain = readFileSync(file);
    const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: plain.length } };
    const name = join(to, `page-${number}`);
    writeFileSync(`${name}.plain`, plain);
    writeFileSync(`${name}.gz`, gzipSync(plain, { level: 9 }));
    writeFileSync(`${name}.br`, brotliCompressSync(plain, brotli));
    const hash = createHash("sha256").update(plain).digest("hex").slice(0, 16);
    console.log([path, `page-${number}`, hash].join("\t"));
    number += 1;
}
