/* Runs a program and lets chosen system calls of it fail: faults CALL:ERRNO:WHEN:PATH... -- PROGRAM ARGS...
 *
 * CALL is stat, open, list, read, write, sync, rename, unlink, create (a folder or a link) or change (rename, unlink, create,
 * and each open that creates or empties a file);
 * ERRNO a number, or 0 to kill the program before the call; WHEN the number of the call that fails,
 * from 1 among those that fit, or 0 for all of them, or N+ for it and all after it; PATH is a part of the path that the call
 * is of. The kernel asks this process about each such call of the program (seccomp user notification, Linux 5.5), so calls
 * that do not go through the C library are met too. Exits 125 where that cannot be had.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum how { BY_PATH, AT, BY_FD };

static const struct { const char *name; long number; enum how how; } CALLS[] = {
#ifdef SYS_stat
    { "stat", SYS_stat, BY_PATH }, { "stat", SYS_lstat, BY_PATH }, { "open", SYS_open, BY_PATH },
    { "rename", SYS_rename, BY_PATH }, { "unlink", SYS_unlink, BY_PATH }, { "unlink", SYS_rmdir, BY_PATH },
#endif
#ifdef SYS_newfstatat
    { "stat", SYS_newfstatat, AT },
#endif
#ifdef SYS_renameat
    { "rename", SYS_renameat, AT },
#endif
    { "stat", SYS_statx, AT }, { "open", SYS_openat, AT }, { "list", SYS_getdents64, BY_FD },
    { "read", SYS_read, BY_FD }, { "read", SYS_readv, BY_FD }, { "read", SYS_pread64, BY_FD },
    { "read", SYS_preadv, BY_FD }, { "read", SYS_preadv2, BY_FD },
    { "write", SYS_write, BY_FD }, { "write", SYS_writev, BY_FD }, { "write", SYS_pwrite64, BY_FD },
    { "write", SYS_pwritev, BY_FD }, { "write", SYS_pwritev2, BY_FD },
    { "sync", SYS_fsync, BY_FD }, { "sync", SYS_fdatasync, BY_FD },
    { "rename", SYS_renameat2, AT }, { "unlink", SYS_unlinkat, AT },
#ifdef SYS_mkdir
    { "create", SYS_mkdir, BY_PATH }, { "create", SYS_link, BY_PATH },
#endif
    { "create", SYS_mkdirat, AT }, { "create", SYS_linkat, AT },
};
#define COUNT (sizeof CALLS / sizeof *CALLS)
#define KILL -1

struct fault { char call[16]; int error; long when; int onwards; const char *path; long met; };

static int unavailable(const char *what) {
    fprintf(stderr, "faults: %s: %s\n", what, strerror(errno));
    return 125;
}

/* Whether a fault of this name may be of a call of a row. */
static int is_of(const char *fault, const char *call) {
    if (strcmp(fault, "change")) return !strcmp(fault, call);
    return !strcmp(call, "open") || !strcmp(call, "create") || !strcmp(call, "rename") || !strcmp(call, "unlink");
}

static int install(struct fault *faults, int many) {
    struct sock_filter code[2 + 2 * COUNT + 1];
    unsigned short at = 0;
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t call = 0; call < COUNT; call++)
        for (int fault = 0; fault < many; fault++)
            if (is_of(faults[fault].call, CALLS[call].name)) {
                code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALLS[call].number, 0, 1);
                code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
                break;
            }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { at, code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static void pass(int socket, int fd) {
    char byte = 0, room[CMSG_SPACE(sizeof fd)] = { 0 };
    struct iovec bytes = { &byte, 1 };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    sendmsg(socket, &message, 0);
}

static int taken(int socket) {
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec bytes = { &byte, 1 };
    struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
    int fd = -1;
    if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message)) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static void of_fd(pid_t pid, int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", pid, fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

static void path_of(const struct seccomp_notif *asked, enum how how, char *path) {
    path[0] = 0;
    if (how == BY_FD) return of_fd(asked->pid, asked->data.args[0], path);
    if (how == AT && (int)asked->data.args[0] != AT_FDCWD) of_fd(asked->pid, asked->data.args[0], path);
    char memory[64], name[PATH_MAX] = { 0 };
    snprintf(memory, sizeof memory, "/proc/%d/mem", asked->pid);
    int file = open(memory, O_RDONLY | O_CLOEXEC);
    /* Byte by byte from its end on: what follows the name may not be mapped. */
    for (size_t at = 0; file >= 0 && at < sizeof name - 1; at++)
        if (pread(file, name + at, 1, asked->data.args[how == AT] + at) != 1 || !name[at]) break;
    close(file);
    size_t length = strlen(path);
    snprintf(path + length, 2 * PATH_MAX - length, "%s%s", length && name[0] ? "/" : "", name);
}

/* Whether an open creates or empties its file. */
static int creates(const struct seccomp_notif *asked, enum how how) {
    return (asked->data.args[how == AT ? 2 : 1] & (O_CREAT | O_TRUNC)) != 0;
}

static int answer(const struct seccomp_notif *asked, struct fault *faults, int many) {
    char path[2 * PATH_MAX];
    for (size_t call = 0; call < COUNT; call++) {
        if (CALLS[call].number != asked->data.nr) continue;
        path_of(asked, CALLS[call].how, path);
        for (int fault = 0; fault < many; fault++) {
            struct fault *one = faults + fault;
            if (!is_of(one->call, CALLS[call].name) || !strstr(path, one->path)) continue;
            if (strcmp(one->call, CALLS[call].name) && !strcmp(CALLS[call].name, "open") && !creates(asked, CALLS[call].how)) continue;
            one->met++;
            if (!one->when || one->met == one->when || (one->onwards && one->met > one->when))
                return one->error ? one->error : KILL;
        }
    }
    return 0;
}

int main(int count, char **args) {
    struct fault faults[16];
    int many = 0, at = 1, sockets[2];
    for (; at < count && strcmp(args[at], "--") && many < 16; at++, many++) {
        struct fault *one = faults + many;
        char when[24];
        int read = 0;
        *one = (struct fault){ 0 };
        if (sscanf(args[at], "%15[a-z]:%d:%23[0-9+]:%n", one->call, &one->error, when, &read) < 3 || !read) return 125;
        one->when = atol(when), one->onwards = strchr(when, '+') != NULL, one->path = args[at] + read;
    }
    if (at + 1 >= count) return 125;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets)) return unavailable("no sockets");
    pid_t child = fork();
    if (child < 0) return unavailable("no process");
    if (child == 0) {
        int listener = install(faults, many);
        if (listener < 0) _exit(unavailable("no seccomp notifications"));
        pass(sockets[1], listener);
        close(listener);
        execv(args[at + 1], args + at + 1);
        _exit(unavailable(args[at + 1]));
    }
    close(sockets[1]);
    int listener = taken(sockets[0]), status;
    for (struct pollfd wait = { listener, POLLIN, 0 }; listener >= 0;) {
        int ready = poll(&wait, 1, 50);
        if (ready > 0 && (wait.revents & POLLIN)) {
            struct seccomp_notif asked = { 0 };
            if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked)) continue;
            int error = answer(&asked, faults, many);
            if (error == KILL) {
                kill(child, SIGKILL);
                break;
            }
            struct seccomp_notif_resp said = { .id = asked.id, .error = -error };
            if (!said.error) said.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
            ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &said);
        } else if (waitpid(child, &status, WNOHANG) == child) {
            goto ended;
        }
    }
    waitpid(child, &status, 0);
ended:
    if (WIFSIGNALED(status)) { signal(WTERMSIG(status), SIG_DFL); raise(WTERMSIG(status)); }
    return WEXITSTATUS(status);
}
