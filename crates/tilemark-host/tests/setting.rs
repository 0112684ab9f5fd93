//! Settings of this host's kernel. Needs root and a version 2 tree with a controller that it gives to nobody.
#![allow(missing_docs, clippy::unwrap_used)]

use tilemark_host::cgroup::{Group, mount_point};
use tilemark_host::setting::{Journal, Now, memory_controller};

#[test]
fn a_controller_that_another_group_needs_stays_in_the_journal_until_it_is_free() {
    let Some((tree, controller)) = mount_point().ok().and_then(|tree| free_controller(&Group::at(tree)))
    else {
        return println!("skipped: no version 2 tree here has a controller to give");
    };
    if !rustix::process::geteuid().is_root() {
        return tilemark_fixtures::skipped("control groups need root");
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::at(folder.path().join("settings.json"), "this-boot");
    let user = Group::create(&format!("tilemark-test-{}-setting", std::process::id())).unwrap();
    let setting = memory_controller::given(&tree, &controller);
    journal.hold(std::slice::from_ref(&setting)).unwrap();
    let given = (tree.enabled().unwrap(), memory_controller::users(&setting));
    user.enable(&[&controller]).unwrap();
    let users = memory_controller::users(&setting);
    let busy = journal.restore().unwrap();
    user.disable(&controller).unwrap();
    let free = journal.restore().unwrap();
    user.remove().unwrap();
    assert_eq!(given, (vec![controller.clone()], Vec::new()));
    assert_eq!(users, [user.path().file_name().unwrap().to_str().unwrap()]);
    assert_eq!((&busy[0].now, busy[0].is_settled()), (&Now::Ours, false));
    assert!(busy[0].to_string().contains("busy"), "{}", busy[0]);
    assert_eq!(free[0].now, Now::AsFound);
    assert_eq!(tree.enabled().unwrap(), Vec::<String>::new());
}

fn free_controller(tree: &Group) -> Option<(Group, String)> {
    let is_given = !tree.enabled().ok()?.is_empty();
    let first = tree.controllers().ok()?.into_iter().next()?;
    (!is_given).then(|| (tree.clone(), first))
}
