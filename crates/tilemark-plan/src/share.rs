//! Which client machine sends the loads of which tile.

use crate::seed::mixed;

/// The client of each tile, by its place in the list of clients: whole tiles in turn, in an order that the seed draws for each turn, so
/// that no client always has the first tiles. From block to block each turn moves on by one, a cyclic Latin square: after as many blocks
/// as there are clients, each client has had each tile of a whole turn once. A tile that is slower than others is then no mark of a
/// client. It depends on nothing but these numbers: all sides of a block and a count of tiles have the same shares. A schedule depends on
/// its tile and block, so it is the same from any client.
pub fn share_out(seed: u64, block: u32, tiles: u32, clients: u32) -> Vec<u32> {
    let turn = |turn: u32| {
        let mut order: Vec<u32> = (0..clients).collect();
        order.sort_by_key(|client| {
            (mixed(seed, &["client", &turn.to_string(), &client.to_string()]), *client)
        });
        order.rotate_left(block.checked_rem(clients).unwrap_or(0) as usize);
        order
    };
    (0..).flat_map(turn).take(if clients == 0 { 0 } else { tiles as usize }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_has_one_client_and_shares_differ_by_one_tile_at_most() {
        for (tiles, clients) in [(1, 1), (7, 3), (8, 3), (2, 5), (1000, 64)] {
            let shares = share_out(11, 3, tiles, clients);
            assert_eq!(shares.len(), tiles as usize);
            let count = |client| shares.iter().filter(|of| **of == client).count();
            let counts: Vec<usize> = (0..clients).map(count).collect();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 1, "{tiles} over {clients}: {counts:?}");
        }
    }

    #[test]
    fn the_seed_alone_decides_and_the_order_changes_from_turn_to_turn() {
        assert_eq!(share_out(11, 1, 9, 3), share_out(11, 1, 9, 3));
        assert_ne!(share_out(11, 1, 64, 8), share_out(12, 1, 64, 8));
        let shares = share_out(11, 1, 64, 8);
        assert!(shares.chunks(8).any(|turn| turn != &shares[..8]), "{shares:?}");
        assert_eq!(share_out(1, 1, 5, 0), Vec::<u32>::new());
    }

    #[test]
    fn over_as_many_blocks_as_clients_each_tile_has_each_client_once() {
        for clients in [2, 3, 7] {
            let blocks: Vec<Vec<u32>> =
                (5..5 + clients).map(|block| share_out(11, block, 2 * clients, clients)).collect();
            for tile in 0..2 * clients as usize {
                let mut of_tile: Vec<u32> = blocks.iter().map(|shares| shares[tile]).collect();
                of_tile.sort_unstable();
                assert_eq!(of_tile, (0..clients).collect::<Vec<_>>(), "{clients} clients, tile {tile}");
            }
        }
    }
}
