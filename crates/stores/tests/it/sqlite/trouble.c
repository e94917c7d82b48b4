/* Lets the disk fail: loaded before the C library, it refuses to write or sync the files of a database as long as the file
 * named by EVERTURN_TROUBLE says so, in two words: what ("write" or "sync") and the number of the error. Each sync of the
 * write-ahead log that was done adds a byte to the file named by EVERTURN_SYNCS. As long as the file named by EVERTURN_HOLD
 * is there, whoever writes the log back stands still; they add a byte to it when they begin to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_called(int fd, const char *name) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len <= 0) return 0;
    path[len] = 0;
    return strstr(path, name) != NULL;
}

static int trouble(int fd, const char *what) {
    char wanted[16];
    int number = 0, saved = errno;
    const char *control = getenv("EVERTURN_TROUBLE");
    if (!control) return 0;
    if (!is_called(fd, "everturn.db")) return errno = saved, 0;
    FILE *file = fopen(control, "re");
    if (!file) return errno = saved, 0;
    int read = fscanf(file, "%15s %d", wanted, &number);
    fclose(file);
    errno = saved;
    return read == 2 && !strcmp(wanted, what) ? number : 0;
}

static void held(int fd) {
    const char *hold = getenv("EVERTURN_HOLD");
    int saved = errno;
    if (hold && !access(hold, F_OK) && is_called(fd, "everturn.db") && !is_called(fd, "everturn.db-")) {
        FILE *file = fopen(hold, "ae");
        if (file) fputc('h', file), fclose(file);
        while (!access(hold, F_OK)) usleep(1000);
    }
    errno = saved;
}

static int synced(int fd, int done) {
    const char *syncs = getenv("EVERTURN_SYNCS");
    int saved = errno;
    if (!done && syncs && is_called(fd, "everturn.db-wal")) {
        FILE *file = fopen(syncs, "ae");
        if (file) fputc('s', file), fclose(file);
    }
    return errno = saved, done;
}

#define FORWARD(type, name, what, params, args, answer)                           \
    type name params {                                                            \
        static type(*real) params;                                                \
        if (!real) real = (type(*) params)dlsym(RTLD_NEXT, #name);                \
        int number = trouble(fd, what);                                           \
        held(fd);                                                                 \
        if (number) return errno = number, -1;                                    \
        type done = real args;                                                    \
        return answer;                                                            \
    }

FORWARD(int, fsync, "sync", (int fd), (fd), synced(fd, done))
FORWARD(int, fdatasync, "sync", (int fd), (fd), synced(fd, done))
FORWARD(ssize_t, write, "write", (int fd, const void *bytes, size_t len), (fd, bytes, len), done)
FORWARD(ssize_t, pwrite, "write", (int fd, const void *bytes, size_t len, off_t at), (fd, bytes, len, at), done)
FORWARD(ssize_t, pwrite64, "write", (int fd, const void *bytes, size_t len, off64_t at), (fd, bytes, len, at), done)
