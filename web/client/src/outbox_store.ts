// Where the outbox keeps its records.

import type { OutboxRecord, OutboxStore } from "./outbox.js";

/** Records that end with the page: where the browser refuses a database. */
export class MemoryStore implements OutboxStore {
  readonly #records = new Map<string, OutboxRecord>();

  all(): Promise<OutboxRecord[]> {
    return Promise.resolve([...this.#records.values()]);
  }

  put(record: OutboxRecord): Promise<void> {
    this.#records.set(record.key, record);
    return Promise.resolve();
  }

  remove(key: string): Promise<void> {
    this.#records.delete(key);
    return Promise.resolve();
  }
}

const TABLE = "outbox";

/** Records that outlive the page. */
class DatabaseStore implements OutboxStore {
  constructor(readonly database: IDBDatabase) {}

  all(): Promise<OutboxRecord[]> {
    return done(this.database.transaction(TABLE).objectStore(TABLE).getAll());
  }

  async put(record: OutboxRecord): Promise<void> {
    await this.#write((table) => table.put(record));
  }

  async remove(key: string): Promise<void> {
    await this.#write((table) => table.delete(key));
  }

  /** Resolves when the transaction has ended: then a reload finds the record. */
  #write(write: (table: IDBObjectStore) => IDBRequest): Promise<void> {
    return new Promise((resolve, reject) => {
      const transaction = this.database.transaction(TABLE, "readwrite", { durability: "strict" });
      transaction.oncomplete = () => resolve();
      transaction.onerror = transaction.onabort = () => reject(transaction.error ?? new Error("not stored"));
      write(transaction.objectStore(TABLE));
    });
  }
}

/** The browser's database, or memory where there is none. */
export async function outboxStore(name = "everturn"): Promise<OutboxStore> {
  try {
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE, { keyPath: "key" });
    return new DatabaseStore(await done(opening));
  } catch {
    return new MemoryStore();
  }
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the database failed"));
  });
}
