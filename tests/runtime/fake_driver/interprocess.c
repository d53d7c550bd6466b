// Memory that another process can open, and memory of the host that is registered: `cuMemAlloc` maps a file without a
// name, and its handle says in which process which descriptor that is. Part of driver.c.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Shared { struct Shared *next; char *at; size_t n; int fd, opened; } Shared;  // fd -1: of another process
typedef struct { int pid, fd; u64 n; char pad[48]; } Handle;                                // CUipcMemHandle
enum { INVALID_VALUE = 1, INVALID_DEVICE_CONTEXT = 201, MAP_FAILED_CODE = 205 };
static Shared *shared;

static Shared **find(char *at) {  // with the lock held
    for (Shared **s = &shared; *s; s = &(*s)->next) if (at >= (*s)->at && at < (*s)->at + (*s)->n) return s;
    return 0;
}

static int map(char **at, size_t n, int fd, int is_own) {
    char *found = mmap(0, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (found == MAP_FAILED) return MAP_FAILED_CODE;
    Shared *made = malloc(sizeof *made);
    *made = (Shared){shared, *at = found, n, is_own ? fd : -1, !is_own};
    shared = made;
    return 0;
}

static int unmap(Shared **at) {
    Shared *s = *at;
    munmap(s->at, s->n);
    if (s->fd >= 0) close(s->fd);
    *at = s->next;
    free(s);
    return 0;
}

int cuMemAlloc(char **at, size_t n) {
    if (!context) return INVALID_CONTEXT;
    int r = unsafe();
    if (r) return r;
    if (!n) return INVALID_VALUE;
    if (n > 1ull << 34) return OUT_OF_MEMORY;
    LOCKED(
        int fd = memfd_create("fake GPU", MFD_CLOEXEC);
        r_ = fd < 0 || ftruncate(fd, n) ? OUT_OF_MEMORY : map(at, n, fd, 1);
        note("cuMemAlloc %zu\n", n);
    );
}
int cuMemFree(char *at) {
    LOCKED(Shared **s = find(at); r_ = s && (*s)->at == at && (*s)->fd >= 0 ? unmap(s) : INVALID_VALUE; note("cuMemFree\n"));
}
int cuMemGetAddressRange(char **base, size_t *n, char *at) {
    LOCKED(Shared **s = find(at); if (s) { *base = (*s)->at; *n = (*s)->n; } else r_ = INVALID_VALUE);
}
int cuIpcGetMemHandle(Handle *h, char *at) {  // memory of a pool has none
    LOCKED(
        Shared **s = find(at);
        if (!s || (*s)->fd < 0) r_ = INVALID_VALUE;
        else *h = (Handle){.pid = getpid(), .fd = (*s)->fd, .n = (*s)->n};
    );
}
int cuIpcOpenMemHandle(char **at, Handle h, unsigned flags) {
    if (!context || h.pid == getpid()) return INVALID_DEVICE_CONTEXT;
    if (flags != 1) return INVALID_VALUE;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", h.pid, h.fd);
    LOCKED(
        int fd = open(path, O_RDWR | O_CLOEXEC);
        r_ = fd < 0 ? MAP_FAILED_CODE : map(at, h.n, fd, 0);
        if (fd >= 0) close(fd);
    );
}
int cuIpcCloseMemHandle(char *at) {
    LOCKED(Shared **s = find(at); r_ = s && (*s)->at == at && (*s)->fd < 0 ? unmap(s) : INVALID_VALUE);
}
int cuMemHostRegister(void *at, size_t n, unsigned flags) { return context ? 0 : INVALID_CONTEXT; }
int cuMemHostUnregister(void *at) { return 0; }
int cuMemHostGetDevicePointer(void **p, void *at, unsigned flags) { *p = at; return 0; }
int cuDeviceGetUuid(unsigned char *uuid, int device) { memset(uuid, 7 + device, 16); return 0; }
