"""What ran: the architecture, taps on the watched layers, snapshots."""
