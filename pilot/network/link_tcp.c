/* Latency, bandwidth and a ring all-reduce over TCP, where there is no MPI.

   link_tcp RANKS FOLDER [ADDRESS]: every rank leaves its address and port in FOLDER, which all of
   them see, and connects to the next one. Its number is that of the launcher. */
#include "link.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEET_S 60.0
#define ALL_S 180
#define MOST_RANKS 4096

static int rank, ranks, to_next, from_previous;
static double scratch[1u << 20];

static void give_up(const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, strerror(errno));
    exit(1);
}

/* Sends and receives at once, so that no two ranks wait for each other. */
static void both(const char *out, size_t sending, char *in, size_t receiving)
{
    while (sending > 0 || receiving > 0) {
        struct pollfd ends[2] = {{sending ? to_next : -1, POLLOUT, 0},
                                 {receiving ? from_previous : -1, POLLIN, 0}};
        if (poll(ends, 2, -1) < 0 && errno != EINTR)
            give_up("poll");
        if (sending && ends[0].revents) {
            ssize_t n = send(to_next, out, sending, MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN)
                give_up("send");
            if (n > 0) {
                out += n;
                sending -= (size_t)n;
            }
        }
        if (receiving && ends[1].revents) {
            ssize_t n = recv(from_previous, in, receiving, 0);
            if (n == 0)
                errno = ECONNRESET;
            if (n == 0 || (n < 0 && errno != EAGAIN))
                give_up("receive");
            if (n > 0) {
                in += n;
                receiving -= (size_t)n;
            }
        }
    }
}

void exchange(int first, void *bytes, size_t count)
{
    if (first) {
        both(bytes, count, NULL, 0);
        both(NULL, 0, bytes, count);
    } else {
        both(NULL, 0, bytes, count);
        both(bytes, count, NULL, 0);
    }
}

void reduce_all(double *values, size_t count)
{
#define BEGIN(part) (count * (size_t)((part) % ranks) / (size_t)ranks)
#define END(part) (count * ((size_t)((part) % ranks) + 1) / (size_t)ranks)
    for (int step = 0; step < 2 * (ranks - 1); step++) {
        int out = rank - step + 2 * ranks, in = out - 1, sums = step < ranks - 1;
        size_t sending = END(out) - BEGIN(out), receiving = END(in) - BEGIN(in);
        double *here = values + BEGIN(in);
        both((char *)(values + BEGIN(out)), sending * sizeof(double),
             sums ? (char *)scratch : (char *)here, receiving * sizeof(double));
        for (size_t i = 0; sums && i < receiving; i++)
            here[i] += scratch[i];
    }
}

static int number(void)
{
    static const char *names[] = {"SLURM_PROCID", "FLUX_TASK_RANK", "PMI_RANK",
                                  "OMPI_COMM_WORLD_RANK", "BERTH_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) != NULL)
            return atoi(getenv(names[i]));
    return 0;
}

static int listening(int *port)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof any;
    int found = socket(AF_INET, SOCK_STREAM, 0);
    if (found < 0 || bind(found, (struct sockaddr *)&any, sizeof any) < 0 ||
        listen(found, 4) < 0 || getsockname(found, (struct sockaddr *)&any, &length) < 0)
        give_up("listen");
    *port = ntohs(any.sin_port);
    return found;
}

static void leave(const char *folder, const char *address, int port)
{
    char path[4096], part[4200];
    snprintf(path, sizeof path, "%s/rank-%d", folder, rank);
    snprintf(part, sizeof part, "%s.part", path);
    FILE *file = fopen(part, "w");
    if (file == NULL || fprintf(file, "%s %d\n", address, port) < 0 || fclose(file) != 0 ||
        rename(part, path) != 0)
        give_up(path);
}

static int connected(const char *folder, int other)
{
    char path[4096], address[256], service[16];
    int port = 0;
    double begun = now();
    snprintf(path, sizeof path, "%s/rank-%d", folder, other);
    for (;;) {
        FILE *file = fopen(path, "r");
        int read = file == NULL ? 0 : fscanf(file, "%255s %d", address, &port);
        if (file != NULL)
            fclose(file);
        if (read == 2)
            break;
        if (now() - begun > MEET_S) {
            errno = ETIMEDOUT;
            give_up(path);
        }
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(address, service, &hints, &found) != 0) {
        errno = EHOSTUNREACH;
        give_up(address);
    }
    int made = socket(AF_INET, SOCK_STREAM, 0);
    if (made < 0 || connect(made, found->ai_addr, found->ai_addrlen) < 0)
        give_up(address);
    freeaddrinfo(found);
    return made;
}

int main(int argc, char **argv)
{
    char own[256];
    int port, yes = 1;
    if (argc < 3 || gethostname(own, sizeof own) < 0)
        return 2;
    rank = number();
    ranks = atoi(argv[1]);
    if (ranks < 2 || ranks > MOST_RANKS || rank >= ranks)
        return 2;
    alarm(ALL_S);
    int open_end = listening(&port);
    leave(argv[2], argc > 3 ? argv[3] : own, port);
    to_next = connected(argv[2], (rank + 1) % ranks);
    from_previous = accept(open_end, NULL, NULL);
    if (from_previous < 0)
        give_up("accept");
    for (int i = 0; i < 2; i++) {
        int end = i ? to_next : from_previous;
        if (setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) < 0 ||
            fcntl(end, F_SETFL, O_NONBLOCK) < 0)
            give_up("socket");
    }
    int status = measure(rank, ranks, "TCP");
    /* Nobody closes before all have their last sum. */
    double last = 1.0;
    reduce_all(&last, 1);
    return status;
}
