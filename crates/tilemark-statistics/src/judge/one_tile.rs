//! What a step has against one tile under the same conditions: its throughput, and how much longer its requests take.

use tilemark_plan::plan::{Demand, Point};
use tilemark_record::result::{Break, GateMeasure};

use super::failures::breaks_of;
use super::gate::not_served;
use super::interference::slowdown;
use super::measured::MeasuredPoint;
use super::repeat_figures::ONE_FIGURE;
use crate::figure::{Figure, Missing, Scale};
use crate::interval::estimate;
use crate::sentence;

/// How many times as long a load's requests take as with one tile; nothing where there is nothing to compare.
pub(crate) fn slowdown_vs_one_tile(
    measured: &MeasuredPoint,
    all: &[MeasuredPoint],
    name: &str,
    seed: u64,
) -> Option<Result<Figure, Missing>> {
    // Roles that are measured alone and in pairs have slowdowns of their own, and an emulator's times mean nothing.
    let is_compared = measured.counts && measured.point.tiles > 1 && measured.point.together.is_none();
    let one = one_tile(measured, all).filter(|_| is_compared)?;
    let planned = measured.point.loads.iter().find(|load| load.name == name)?;
    let loop_kind = planned.demand.loop_kind();
    Some(
        comparable(measured, one, name)
            .and_then(|()| slowdown(&one.kept, &measured.kept, name, loop_kind, seed)),
    )
}

/// How many times as much the headline load has done as with one tile.
pub(crate) fn throughput_vs_one_tile(
    measured: &MeasuredPoint,
    all: &[MeasuredPoint],
    headline: Option<&str>,
) -> Result<f64, Missing> {
    let name = headline.ok_or_else(|| Missing::because("this scenario has no load"))?;
    let one = one_tile(measured, all).ok_or_else(|| Missing::because("one tile was not measured"))?;
    if measured.load(name).iter().any(|load| load.figure.is_some()) {
        return Err(Missing::because(ONE_FIGURE));
    }
    same_demand(measured.point, name)?;
    let throughput = |of: &MeasuredPoint| {
        let rates: Vec<f64> = of.load(name).iter().map(|load| load.rate()).collect();
        estimate(&rates, Scale::Logarithmic, 0).map(|figure| figure.value)
    };
    Ok(throughput(measured)? / throughput(one)?)
}

/// The point of one tile under the same conditions.
fn one_tile<'m, 'a>(measured: &MeasuredPoint, all: &'m [MeasuredPoint<'a>]) -> Option<&'m MeasuredPoint<'a>> {
    all.iter().find(|other| {
        let (point, own) = (other.point, measured.point);
        point.tiles == 1 && point.backend == own.backend && point.side == own.side && point.vary == own.vary
    })
}

/// Whether times at a step and with one tile are of the same requests. Those that fail may end early or late: a mean over them is the time of
/// nothing. Demand that was not served is what a slowdown shows.
fn comparable(measured: &MeasuredPoint, one: &MeasuredPoint, name: &str) -> Result<(), Missing> {
    same_demand(measured.point, name)?;
    if let Some(broke) = failed(one, name) {
        let what = sentence::what_broke(&broke);
        return Err(Missing::because(format!("{what}, with one tile: times are not compared")));
    }
    if let Some(broke) = failed(measured, name) {
        return Err(Missing::because(format!("{}: times are not compared", sentence::what_broke(&broke))));
    }
    Ok(())
}

/// Whether a load asks as much of a guest as with one tile. A surge needs tiles beside it, so that one tile has none.
fn same_demand(point: &Point, name: &str) -> Result<(), Missing> {
    let mut loads = point.loads.iter().filter(|load| load.name == name);
    if loads.any(|load| matches!(load.demand, Demand::Open { surge: Some(_), .. })) {
        return Err(Missing::because("the point has a surge, and one tile by itself had none"));
    }
    Ok(())
}

/// What failed of a load, else of the whole host and of guests without a load, else the load's errors where they are beyond the gate.
fn failed(of: &MeasuredPoint, name: &str) -> Option<Break> {
    let failure = |load: &str| breaks_of(of.point, &of.kept, load).into_iter().next();
    let errors = || not_served(of.point, &of.kept, name).filter(|broke| broke.measure == GateMeasure::Errors);
    failure(name).or_else(|| failure("")).or_else(errors)
}
