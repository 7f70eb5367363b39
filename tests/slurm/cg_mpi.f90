! Conjugate gradients for the five-point Laplacian, rows of the grid shared among MPI ranks.
program cg
  use mpi
  implicit none
  integer, parameter :: n = 700, steps = 500
  real(8), allocatable :: x(:, :), r(:, :), p(:, :), q(:, :)
  real(8) :: alpha, rho, older, part
  integer :: rank, ranks, rows, step, ierr, i, j

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  rows = n / ranks
  allocate (x(n, rows), r(n, rows), q(n, rows), p(0:n + 1, 0:rows + 1))
  x = 0; p = 0; r = 1
  p(1:n, 1:rows) = r
  rho = total(sum(r * r))
  do step = 1, steps
    call exchange()
    do j = 1, rows
      do i = 1, n
        q(i, j) = 4 * p(i, j) - p(i - 1, j) - p(i + 1, j) - p(i, j - 1) - p(i, j + 1)
      end do
    end do
    alpha = rho / total(sum(p(1:n, 1:rows) * q))
    x = x + alpha * p(1:n, 1:rows)
    r = r - alpha * q
    older = rho
    rho = total(sum(r * r))
    p(1:n, 1:rows) = r + (rho / older) * p(1:n, 1:rows)
  end do
  part = total(sum(x))
  if (rank == 0) print *, part, rho
  call MPI_Finalize(ierr)

contains

  real(8) function total(mine)
    real(8), intent(in) :: mine
    call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end function total

  subroutine exchange()
    integer :: up, down
    up = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
    down = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    call MPI_Sendrecv(p(1, rows), n, MPI_DOUBLE_PRECISION, up, 0, p(1, 0), n, &
      MPI_DOUBLE_PRECISION, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(p(1, 1), n, MPI_DOUBLE_PRECISION, down, 1, p(1, rows + 1), n, &
      MPI_DOUBLE_PRECISION, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  end subroutine exchange
end program cg
