/* What drives ZooKeeper: so many writes are under way at any time, and an answer starts the next one.
 *
 *     program HOST:PORT,... SLOTS SESSIONS SECONDS KEYS SALT
 *
 * SESSIONS with each host share the SLOTS. With 0 SECONDS the keys are made instead. Ends with the line
 * that load.lua ends with. Of a session everything but the first requests happens on the one thread
 * that the library calls completions on, so nothing here is locked.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum { VALUE_BYTES = 200, PATH_BYTES = 32, HOSTS_MAX = 16, SESSION_TIMEOUT_MS = 15000, CONNECT_LIMIT_S = 15 };

struct session {
    zhandle_t *handle;
    uint32_t *times;
    size_t count, room, refused;
};

struct slot {
    struct session *session;
    unsigned place;
    uint64_t began, number;
};

static unsigned slots, keys;
static const char *salt;
static uint64_t deadline;
static atomic_uint working;

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void path_of(char *path, uint64_t key) {
    snprintf(path, PATH_BYTES, "/service-%u", (unsigned)(key % keys));
}

static void note(struct session *session, uint64_t took) {
    if (session->count == session->room) {
        session->room = session->room ? session->room * 2 : 4096;
        session->times = realloc(session->times, session->room * sizeof *session->times);
        if (!session->times) fail("no memory");
    }
    session->times[session->count++] = (uint32_t)took;
}

static void answered(int code, const struct Stat *stat, const void *data);

/* A value that no other request of any run has: its number, filled up. */
static void start(struct slot *slot) {
    char path[PATH_BYTES], value[VALUE_BYTES + 1];
    int head = snprintf(value, sizeof value, "%s-%u-%llu-", salt, slot->place, (unsigned long long)slot->number);
    memset(value + head, 'v', (size_t)(VALUE_BYTES - head));
    path_of(path, slot->number++ * slots + slot->place);
    slot->began = now_us();
    if (zoo_aset(slot->session->handle, path, value, VALUE_BYTES, -1, answered, slot) != ZOK) fail("a session broke");
}

static void answered(int code, const struct Stat *stat, const void *data) {
    struct slot *slot = (struct slot *)(uintptr_t)data;
    uint64_t now = now_us();
    (void)stat;
    note(slot->session, now - slot->began);
    slot->session->refused += code != ZOK;
    if (now < deadline) start(slot);
    else atomic_fetch_sub(&working, 1);
}

static void connect_to(struct session *session, const char *host) {
    uint64_t limit = now_us() + CONNECT_LIMIT_S * 1000000ull;
    session->handle = zookeeper_init(host, NULL, SESSION_TIMEOUT_MS, NULL, NULL, 0);
    while (session->handle && zoo_state(session->handle) != ZOO_CONNECTED_STATE && now_us() < limit) usleep(1000);
    if (!session->handle || zoo_state(session->handle) != ZOO_CONNECTED_STATE) fail("no session");
}

static void make_keys(zhandle_t *handle) {
    char path[PATH_BYTES];
    for (unsigned key = 0; key < keys; key++) {
        path_of(path, key);
        int code = zoo_create(handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
        if (code != ZOK && code != ZNODEEXISTS) fail(zerror(code));
    }
}

static int by_size(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void tell(const struct session *sessions, unsigned count, uint64_t duration) {
    struct session all = {0};
    for (unsigned one = 0; one < count; one++) {
        for (size_t at = 0; at < sessions[one].count; at++) note(&all, sessions[one].times[at]);
        all.refused += sessions[one].refused;
    }
    qsort(all.times, all.count, sizeof *all.times, by_size);
    printf("RESULT {\"requests\":%zu,\"duration_us\":%llu,\"p50_us\":%u,\"p99_us\":%u,\"refused\":%zu,\"broken\":0}\n",
           all.count, (unsigned long long)duration, all.times[all.count / 2], all.times[all.count * 99 / 100],
           all.refused);
}

int main(int argc, char **argv) {
    if (argc != 7) fail("usage: HOST:PORT,... SLOTS SESSIONS SECONDS KEYS SALT");
    slots = (unsigned)atoi(argv[2]);
    keys = (unsigned)atoi(argv[5]);
    salt = argv[6];
    unsigned each = (unsigned)atoi(argv[3]), hosts = 0, count = 0;
    char *host[HOSTS_MAX];
    for (char *one = strtok(argv[1], ","); one && hosts < HOSTS_MAX; one = strtok(NULL, ",")) host[hosts++] = one;
    struct session *sessions = calloc(hosts * each, sizeof *sessions);
    struct slot *all = calloc(slots, sizeof *all);
    if (!sessions || !all) fail("no memory");
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    for (; count < hosts * each; count++) connect_to(&sessions[count], host[count % hosts]);
    if (atoi(argv[4]) == 0) {
        make_keys(sessions[0].handle);
        return 0;
    }
    uint64_t began = now_us();
    deadline = began + (uint64_t)atoi(argv[4]) * 1000000;
    atomic_store(&working, slots);
    for (unsigned place = 0; place < slots; place++) {
        all[place] = (struct slot){.session = &sessions[place % count], .place = place};
        start(&all[place]);
    }
    while (atomic_load(&working)) usleep(500);
    tell(sessions, count, now_us() - began);
    for (unsigned one = 0; one < count; one++) zookeeper_close(sessions[one].handle);
    return 0;
}
